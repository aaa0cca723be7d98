// Package shellescape replaces the part used by JuiceFS of the module with its path, which declares
// no license. It quotes words for a shell, for the workers that juicefs sync starts on other
// machines. Our server starts none, but is linked with that package.
package shellescape

import (
	"bytes"
	"strings"
)

// plain are the bytes without a special meaning in every shell, at any position in a word.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_"

// EscapeArgs quotes each word so that a shell reads it back. JuiceFS passes them to ssh, which
// takes the first one, the host, itself, so a word of plain bytes stays unquoted. Words of the form
// NAME=value stand before the command, where a quoted name is no assignment (POSIX, Shell Command
// Language §2.9.1). So EscapeArgs quotes only special bytes, not whole words.
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
		if n > 0 { // in single quotes each byte stands for itself (§2.2.2)
			out.WriteString("'" + strings.ReplaceAll(word[:n], "'", `'\''`) + "'")
		}
		word = word[n:]
	}
	return out.String()
}
