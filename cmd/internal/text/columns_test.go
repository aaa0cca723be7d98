// Columns, padding, names of owners, and JSON arrays.

package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Columns match ls -C, at widths for one, some and all names per line.
func TestColumnsAreThoseOfLs(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 40 {
		name := fmt.Sprintf("%02d%s", i, strings.Repeat("n", i*i%17))
		if i%9 == 0 {
			name += "日本" // two columns each
		}
		names = append(names, name)
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for _, width := range []int{1, 20, 23, 40, 41, 62, 63, 64, 80, 100, 133, 500, 801, 2000} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		WriteColumns(out, names, width, '\n')
		out.Flush()
		diffLines(t, fmt.Sprint("width ", width), b.String(), lsTool(t, dir, "-C", "-w", fmt.Sprint(width)))
	}
}

func TestColumnsOfFewNames(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a\n": {"a"}, "a  b\n": {"a", "b"}, "a  bbb\tc\n": {"a", "bbb", "c"}} {
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		WriteColumns(out, names, 80, '\n')
		out.Flush()
		if b.String() != want {
			t.Errorf("%q: %q, want %q", names, b.String(), want)
		}
	}
}

func TestPaddingIsByWidth(t *testing.T) {
	for _, c := range []struct {
		s           string
		n           int
		left, right string
	}{
		{"ab", 4, "  ab", "ab  "}, {"ab", 2, "ab", "ab"}, {"abc", 2, "abc", "abc"}, {"", 2, "  ", "  "}, {"日", 3, " 日", "日 "}, {"é", 2, " é", "é "},
	} {
		if l, r := PadLeft(c.s, c.n), PadRight(c.s, c.n); l != c.left || r != c.right {
			t.Errorf("%q to %d: %q and %q, want %q and %q", c.s, c.n, l, r, c.left, c.right)
		}
	}
}

func TestOwners(t *testing.T) {
	const none = 4_000_000_001
	o := NewOwners(false)
	if o.User(0) != "root" || o.Group(0) != "root" || o.User(none) != "4000000001" || o.Group(none) != "4000000001" {
		t.Errorf("%q %q %q %q", o.User(0), o.Group(0), o.User(none), o.Group(none))
	}
	o = NewOwners(true)
	if o.User(0) != "0" || o.Group(0) != "0" {
		t.Errorf("numbers: %q %q", o.User(0), o.Group(0))
	}
	o = NewOwners(false)
	o.Unknown = "UNKNOWN"
	if o.User(none) != "UNKNOWN" || o.Group(none) != "UNKNOWN" || o.User(0) != "root" {
		t.Errorf("stat's: %q %q", o.User(none), o.Group(none))
	}
	if o.Pad("root", 6) != "root  " || o.Pad("42", 6) != "    42" {
		t.Errorf("%q %q", o.Pad("root", 6), o.Pad("42", 6))
	}
}

// Each user and group of this machine has the first name that the machine's tables list for its
// number.
func TestOwnersAreThoseOfThisMachine(t *testing.T) {
	o := NewOwners(false)
	for file, name := range map[string]func(uint32) string{"/etc/passwd": o.User, "/etc/group": o.Group} {
		b, err := os.ReadFile(file)
		if err != nil {
			machine.Skip(t, err.Error())
		}
		seen := map[uint64]bool{}
		for line := range strings.Lines(string(b)) {
			f := strings.Split(line, ":")
			if len(f) < 3 || strings.HasPrefix(line, "#") {
				continue
			}
			id, err := strconv.ParseUint(f[2], 10, 32)
			if err != nil || seen[id] {
				continue
			}
			seen[id] = true
			for range 2 { // first looked up, then from the cache
				if got := name(uint32(id)); got != f[0] {
					t.Errorf("%s: %d is %q, want %q", file, id, got, f[0])
				}
			}
		}
		if len(seen) == 0 {
			t.Errorf("%s names nobody", file)
		}
	}
}

// An array is JSON with any number of items, and each item is written before Item returns.
func TestJSONArray(t *testing.T) {
	for n := range 4 {
		var b bytes.Buffer
		a := NewJSONArray(&b)
		for i := range n {
			before := b.Len()
			a.Item(map[string]int{"i": i})
			if b.Len() == before {
				t.Errorf("item %d of %d is kept", i, n)
			}
		}
		a.End()
		var list []map[string]int
		if err := json.Unmarshal(b.Bytes(), &list); err != nil || len(list) != n || !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
			t.Fatalf("%d items: %v, %q, want as many and a new line", n, err, &b)
		}
		if n > 0 && list[n-1]["i"] != n-1 {
			t.Errorf("last of %d items: %v, want %d", n, list[n-1], n-1)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int64]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := Plural(n, "file"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
