// Package shellescape has what JuiceFS calls of the module whose path it takes, which says nowhere by what license others may use it: words
// for a shell, of the workers that juicefs sync starts on other machines. Our server starts none, but is linked with that package.
package shellescape

import (
	"bytes"
	"strings"
)

// plain are the bytes that mean themselves in every shell, wherever they stand in a word.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"

// EscapeArgs returns each word as a shell reads it back. JuiceFS hands them to ssh, which takes the first, the host, for itself, so one of
// plain bytes stays as it is; and those of the form NAME=value stand before the command, where a quoted name is no assignment (POSIX, Shell
// Command Language §2.9.1). So only what needs it is quoted, not the word.
func EscapeArgs(words []string) []string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return quoted
}

func quote(word string) string {
	if word == "" {
		return "''"
	}
	var out bytes.Buffer
	for word != "" {
		n := len(word) - len(strings.TrimLeft(word, plain))
		out.WriteString(word[:n])
		word = word[n:]
		if n = strings.IndexAny(word, plain); n < 0 {
			n = len(word)
		}
		if n > 0 { // in single quotes nothing but themselves means anything (§2.2.2)
			out.WriteString("'" + strings.ReplaceAll(word[:n], "'", `'\''`) + "'")
		}
		word = word[n:]
	}
	return out.String()
}
