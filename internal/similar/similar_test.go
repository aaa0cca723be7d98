// Mistyped words, and the known words close to them.

package similar

import "testing"

func TestWord(t *testing.T) {
	known := []string{"soft", "root_squash", "no_root_squash", "addr", "rw"}
	for word, want := range map[string]string{
		"sofft": "soft", "sotf": "soft", "sft": "soft", "saft": "soft",
		"no_root_sqash": "no_root_squash", "rootsquash": "root_squash",
		"address": "addr", "no_root": "no_root_squash",
		"soft": "soft", "sooofft": "", "zzz": "", "ro": "rw", "rwx": "rw", "no": "", "": "",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("Word(%q) = %q, want %q", word, got, want)
		}
	}
}
