// Names and paths as text, without calls to a file system.

package treecopy

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TestBadNames: names are refused if they are no single component, or lead out of the directory.
func TestBadNames(t *testing.T) {
	for name, bad := range map[string]bool{
		"": true, ".": true, "..": true, "/": true, "a/b": true, "/a": true, "a/": true, "../x": true,
		"a\x00": true, "\x00": true, "a\x00/..": true,
		"...": false, "..a": false, "a..": false, ".a": false, "a": false, "a b": false, "\xff\xfe": false, "~": false,
		"a\\b": false, "-rf": false, "a\nb": false, strings.Repeat("x", 300): false,
	} {
		if badName(name) != bad {
			t.Errorf("badName(%q) = %v", name, !bad)
		}
	}
}

// TestPathsAreSplitAsWritten: a path splits into its last component and the part before, and has a
// text for messages. Joined again, the parts are the path as typed, without trailing slashes.
func TestPathsAreSplitAsWritten(t *testing.T) {
	for _, c := range []struct{ path, dir, base, last, textDir string }{
		{"a", "", "a", "a", ""},
		{"a/", "", "a", "a", ""},
		{"a///", "", "a", "a", ""},
		{"a/b", "a/", "b", "b", "a/"},
		{"a//b/", "a//", "b", "b", "a//"},
		{"/a", "/", "a", "a", "/"},
		{"//a", "//", "a", "a", "//"},
		{"/a/../b", "/a/../", "b", "b", "/a/../"},
		{"./a", "./", "a", "a", "./"},
		{"../x", "../", "x", "x", "../"},
		{"a/...", "a/", "...", "...", "a/"},
		{"host:/export/f", "host:/export/", "f", "f", "host:/export/"},
	} {
		dir, base, err := splitLast(c.path)
		if dir != c.dir || base != c.base || err != nil {
			t.Errorf("splitLast(%q) = %q, %q, %v", c.path, dir, base, err)
		}
		if got := lastName(c.path); got != c.last {
			t.Errorf("lastName(%q) = %q", c.path, got)
		}
		if got := textDir(c.path); got != c.textDir {
			t.Errorf("textDir(%q) = %q", c.path, got)
		}
		if got := join(textDir(c.path), base); got != strings.TrimRight(c.path, "/") {
			t.Errorf("%q is written %q in messages", c.path, got)
		}
	}
	for path, last := range map[string]string{"": "", "/": "", "//": "", ".": ".", "..": "..", "a/.": ".", "a/..": "..", "a/../": ".."} {
		if _, _, err := splitLast(path); !errors.Is(err, unix.EINVAL) {
			t.Errorf("splitLast(%q): %v", path, err)
		}
		if got := lastName(path); got != last {
			t.Errorf("lastName(%q) = %q, want %q", path, got, last)
		}
	}
}

func TestJoin(t *testing.T) {
	for _, c := range []struct{ dir, name, want string }{
		{"", "a", "a"}, {"/", "a", "/a"}, {"d", "a", "d/a"}, {"d/", "a", "d/a"}, {"d//", "a", "d//a"},
		{"d", "", "d/"}, {".", ".", "./."}, {"d", "a/b", "d/a/b"},
	} {
		if got := join(c.dir, c.name); got != c.want {
			t.Errorf("join(%q, %q) = %q, want %q", c.dir, c.name, got, c.want)
		}
	}
}

// TestTemporaryNamesFit: a temporary name is hidden, not longer than a name may be, and never
// repeated. It does not end in a part of a character.
func TestTemporaryNamesFit(t *testing.T) {
	for _, name := range []string{
		"", "a", strings.Repeat("x", 236), strings.Repeat("x", 237), strings.Repeat("x", 238), strings.Repeat("x", 255),
		strings.Repeat("ü", 127), strings.Repeat("漢", 85), "x" + strings.Repeat("漢", 84), strings.Repeat("🙂", 63), strings.Repeat("\xff", 255),
	} {
		one, two := tempName(name), tempName(name)
		if one == two {
			t.Errorf("two temporary names of %q are %q", name, one)
		}
		if len(one) > maxNameLen || !strings.HasPrefix(one, ".") || badName(one) {
			t.Errorf("%q (%d bytes) for %q", one, len(one), name)
		}
		if utf8.ValidString(name) && !utf8.ValidString(one) {
			t.Errorf("%q is cut in a character", one)
		}
		stem, code, ok := strings.Cut(one[1:], ".nfsrdma-")
		if !ok || !strings.HasPrefix(name, stem) || len(code) != 8 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz234567") != "" {
			t.Errorf("%q is not .NAME.nfsrdma-XXXXXXXX of %q", one, name)
		}
		if len(name) <= 236 && stem != name {
			t.Errorf("%q was cut to %q without need", name, stem)
		}
	}
}

// TestErrorsSayWhatAndWhy: the text has the operation, and the cause if one is known.
func TestErrorsSayWhatAndWhy(t *testing.T) {
	e := &Error{What: "cannot stat 'a'", Err: unix.ENOENT}
	if e.Error() != "cannot stat 'a': no such file or directory" || !errors.Is(e, unix.ENOENT) {
		t.Errorf("%v", e)
	}
	e = &Error{What: "will not overwrite"}
	if e.Error() != "will not overwrite" || e.Unwrap() != nil {
		t.Errorf("%v", e)
	}
	r := &readError{unix.EIO}
	if r.Error() != unix.EIO.Error() {
		t.Errorf("%v", r)
	}
}

// TestQuote: names stand between single quotes unless the caller sets another style.
func TestQuote(t *testing.T) {
	if got := New(Options{}).quote("a b"); got != "'a b'" {
		t.Errorf("%s", got)
	}
	if got := New(Options{Quote: strings.ToUpper}).quote("a b"); got != "A B" {
		t.Errorf("%s", got)
	}
}
