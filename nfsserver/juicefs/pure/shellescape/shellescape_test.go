// A shell reads the words back unchanged.

package shellescape

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWordsForAShell(t *testing.T) {
	for word, want := range map[string]string{
		"":                  `''`,
		"user@host-1.org":   `user@host-1.org`, // ssh reads it, not a shell
		"KEY=a b":           `KEY=a' 'b`,       // an assignment
		"$(id)":             `'$('id')'`,
		"it's":              `it''\'''s`,
		"a\nb":              "a'\n'b",
		"~/\xff":            "'~'/'\xff'",
		"s3://b?x=1&y=[2]*": `s3://b'?'x=1'&'y='['2']*'`,
	} {
		if got := EscapeArgs([]string{word}); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	all := make([]byte, 255) // a word has no NUL
	for i := range all {
		all[i] = byte(i + 1)
	}
	readBack(t, []string{string(all), "", "plain", "'", "''", `"`, `\`, "-n", "$HOME `id` $(id)", "a\n\nb\n", "it's; rm -rf '*' & | < > # ~ ! {a,b} [c]?", "ü\xc3"})
	// JuiceFS starts workers in this form: variables before the command.
	words := EscapeArgs([]string{"KEY=it's $1 ~", "sh", "-c", `printf %s "$KEY"`})
	if out, err := exec.Command("sh", "-c", strings.Join(words, " ")).Output(); err != nil || string(out) != "it's $1 ~" {
		t.Errorf("a variable of a command: %q, %v", out, err)
	}
}

// readBack checks that a shell, which prints the words it reads, has read the given words.
func readBack(t *testing.T, words []string) {
	t.Helper()
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+strings.Join(EscapeArgs(words), " ")).Output()
	if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// FuzzWordsForAShell takes words from the input: one after each NUL.
func FuzzWordsForAShell(f *testing.F) {
	for _, words := range []string{"", "a\x00b c", "\\'\x00'\\", "x\n\x00\x00~", "$'a'\x00`\x00é\x81\x88"} {
		f.Add(words)
	}
	f.Fuzz(func(t *testing.T, words string) {
		if len(words) < 16<<10 { // the script is one word of execve(2), which has at most 128 KiB, and quoting makes four bytes of one
			readBack(t, strings.Split(words, "\x00"))
		}
	})
}
