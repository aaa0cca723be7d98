// Help texts as Markdown: two columns, examples, and special characters.

package cli

import "testing"

func TestDefinitions(t *testing.T) {
	for help, want := range map[string]string{
		"One line\nand another.": "One line\nand another.",
		"Options:\n  ro, rw  refused,\n          or not\n  *  a*b_c\nEnd": "Options:\n\n\nro, rw\n: refused, or not\n\n\\*\n: a\\*b\\_c\n\n\nEnd",
		"  server:/x  /mnt":             "\n\nserver:/x\n: /mnt\n\n",
		"  no columns\n    here *":      "\n```\n  no columns\n    here *\n```\n",
		"    deeper  than that":         "\n```\n    deeper  than that\n```\n",
		"a <b> [c](d) `e` \\040 *f* #g": "a \\<b\\> \\[c\\](d) \\`e\\` \\\\040 \\*f\\* \\#g",
	} {
		if got := definitions(help); got != want {
			t.Errorf("%q:\n%q, want\n%q", help, got, want)
		}
	}
}
