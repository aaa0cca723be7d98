// ls: the names, their order and form, and the handling of unavailable ones.

package listing

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestNamesAndOrder: the options that select, sort and format names, as in ls(1).
func TestNamesAndOrder(t *testing.T) {
	r := newRig(t)
	r.tree()
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"by name":           {Options{}, "a b|b|link|pipe|sub|"},
		"-r":                {Options{Reverse: true}, "sub|pipe|link|b|a b|"},
		"-A":                {Options{AlmostAll: true}, ".hidden|a b|b|link|pipe|sub|"},
		"-a":                {Options{All: true}, ".|..|.hidden|a b|b|link|pipe|sub|"},
		"-t":                {Options{Time: true}, "pipe|a b|b|sub|link|"},
		"-tr":               {Options{Time: true, Reverse: true}, "link|sub|b|a b|pipe|"},
		"-F":                {Options{Classify: true}, "a b*|b|link@|pipe" + "||sub/|"},
		"-p":                {Options{Slash: true}, "a b|b|link|pipe|sub/|"},
		"-Q":                {Options{Quoting: "c"}, `"a b"|"b"|"link"|"pipe"|"sub"|`},
		"-b":                {Options{Quoting: "escape"}, `a\ b|b|link|pipe|sub|`},
		"shell style":       {Options{Quoting: "shell"}, "'a b'|b|link|pipe|sub|"},
		"-0":                {Options{Zero: true}, "a b\x00b\x00link\x00pipe\x00sub\x00"},
		"-C":                {Options{Columns: true}, "a b  b\tlink  pipe  sub|"},
		"-C -1":             {Options{One: true}, "a b|b|link|pipe|sub|"},
		"-L of a link":      {Options{Dereference: true, Classify: true}, "a b*|b|link/|pipe" + "||sub/|"},
		"-d":                {Options{Directory: true}, "URL/d|"},
		"-R":                {Options{Recursive: true}, "URL/d:|a b|b|link|pipe|sub||URL/d/sub:|in|"},
		"-R -p":             {Options{Recursive: true, Slash: true}, "URL/d:|a b|b|link|pipe|sub/||URL/d/sub:|in|"},
		"-c sorts by ctime": {Options{Ctime: true, Reverse: true}, ""},
	} {
		got, err := r.ls(c.o, "/d")
		if err != nil || r.stderr.Len() > 0 {
			t.Fatalf("%s: %v, %s", name, err, &r.stderr)
		}
		if c.want == "" { // files have the time of this run, so only their order is known
			if len(strings.Fields(got)) != 6 {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		if got = strings.ReplaceAll(got, "\n", "|"); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// TestSizesAreSorted: -S puts the largest first, comparing all 64 bits, and equal sizes by name.
func TestSizesAreSorted(t *testing.T) {
	rows := []*row{{name: "b", attr: &nfs3.Fattr{Size: 7}}, {name: "huge", attr: &nfs3.Fattr{Size: 1<<63 + 1}},
		{name: "a", attr: &nfs3.Fattr{Size: 7}}, {name: "lost"}, {name: "none", attr: new(nfs3.Fattr)}}
	names := func(l *Run) (s []string) {
		l.sort(rows)
		for _, r := range rows {
			s = append(s, r.name)
		}
		return s
	}
	if got := names(&Run{Options: Options{Size: true}}); !slices.Equal(got[:3], []string{"huge", "a", "b"}) {
		t.Errorf("-S: %q", got)
	}
	before := names(&Run{})
	slices.Reverse(before)
	if got := names(&Run{Options: Options{Reverse: true}}); !slices.Equal(got, before) {
		t.Errorf("-r: %q, want %q", got, before)
	}
	if got := names(&Run{Options: Options{Unsorted: true, Size: true}}); !slices.Equal(got, before) {
		t.Errorf("-U has sorted: %q", got)
	}
}

// TestLongForm: the columns of -l are as wide as their widest value, and a link shows its target.
func TestLongForm(t *testing.T) {
	r := newRig(t)
	r.tree()
	got, err := r.ls(Options{Long: true, Numeric: true}, "/d")
	if err != nil {
		t.Fatalf("ls: %v", err)
	}
	id := fmt.Sprintf("%d %d", os.Geteuid(), os.Getegid())
	day := "Feb  3  2001"
	want := []string{`total \d+`,
		`-rwxr-xr-x 1 ` + id + ` +5 ` + day + ` a b`,
		`-rw-r----- 1 ` + id + ` +100 ` + day + ` b`,
		`lrwxrwxrwx 1 ` + id + ` +3 ` + day + ` link -> sub`,
		`prw------- 1 ` + id + ` +0 ` + day + ` pipe`,
		`drwxr-x--- 2 ` + id + ` +\d+ ` + day + ` sub`}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), got)
	}
	for i, l := range lines {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(l) {
			t.Errorf("line %d: %q, want %s", i, l, want[i])
		}
		if i > 1 && strings.Index(l, day) != strings.Index(lines[1], day) {
			t.Errorf("line %d is not aligned:\n%s", i, got)
		}
	}
	if got, err = r.ls(Options{Long: true, Numeric: true, Human: true, Classify: true}, "/d/link"); err != nil || !strings.HasSuffix(got, "URL/d/link -> sub/\n") {
		t.Errorf("-lF of a link: %q, %v", got, err)
	}
}

// TestDeviceColumns: a device shows its numbers in the size column.
func TestDeviceColumns(t *testing.T) {
	var out strings.Builder
	l, err := New(newRig(t).s, &out, Options{Long: true, Numeric: true})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	rows := []*row{
		{name: "file", attr: &nfs3.Fattr{Type: nfs3.TypeReg, Mode: 0o644, Nlink: 1, Size: 7, Mtime: nfs3.Time{Sec: 86400 * 365}}},
		{name: "null", attr: &nfs3.Fattr{Type: nfs3.TypeChr, Mode: 0o666, Nlink: 12, Rdev: nfs3.Specdata{Major: 1, Minor: 230}, Mtime: nfs3.Time{Sec: 86400 * 365}}},
		{name: "gone"},
	}
	if err := l.rows(t.Context(), dir{}, rows); err != nil {
		t.Fatalf("rows: %v", err)
	}
	l.out.Flush()
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], "-rw-r--r--  1 0 0      7 ") || !strings.HasPrefix(lines[1], "crw-rw-rw- 12 0 0 1, 230 ") ||
		lines[2] != "??????????  ? ? ?      ?            ? gone" {
		t.Errorf("%q", lines)
	}
}

// TestErrorsKeepTheOthers: a missing operand is reported as typed, with exit status 2, and the
// others are still listed.
func TestErrorsKeepTheOthers(t *testing.T) {
	r := newRig(t)
	r.tree()
	got, err := r.ls(Options{}, "/none", "/d/sub", "/d/b")
	var status cli.ExitError
	if !errors.As(err, &status) || status != 2 {
		t.Errorf("%v, want status 2", err)
	}
	if want := "URL/d/b\n\nURL/d/sub:\nin\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if want := "nfsrdma: ls: cannot access '" + r.url + "/none': No such file or directory\n"; r.stderr.String() != want {
		t.Errorf("%q, want %q", &r.stderr, want)
	}
	if _, err := r.ls(Options{Quoting: "bold"}, "/d"); err == nil || !strings.Contains(err.Error(), `"bold" must be one of literal`) {
		t.Errorf("an unknown style: %v", err)
	}
}

// TestLinksToNothing: a dangling link is listed; with -L it is an error with status 1, and the name
// is still listed.
func TestLinksToNothing(t *testing.T) {
	r := newRig(t)
	r.must(r.fsys.Mkdir(t.Context(), "d", 0o755))
	r.must(r.fsys.Symlink(t.Context(), "nowhere", "d/dangling"))
	if got, err := r.ls(Options{}, "/d/dangling"); err != nil || got != "URL/d/dangling\n" {
		t.Errorf("%q, %v", got, err)
	}
	got, err := r.ls(Options{Dereference: true}, "/d")
	var status cli.ExitError
	if got != "dangling\n" || !errors.As(err, &status) || status != 1 {
		t.Errorf("-L: %q, %v", got, err)
	}
	if !strings.Contains(r.stderr.String(), "cannot access '"+r.url+"/d/dangling': No such file or directory") {
		t.Errorf("%s", &r.stderr)
	}
}

// TestUnsortedBatches: -U writes batches immediately, so no total precedes the first.
func TestUnsortedBatches(t *testing.T) {
	r := newRig(t)
	dir, err := r.fsys.Walk(t.Context(), "/", true)
	r.must(err)
	for i := range Batch + 1 {
		_, err := r.fsys.Client().Create(t.Context(), dir.FH, fmt.Sprint(i), nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
		r.must(err)
	}
	got, err := r.ls(Options{Unsorted: true, Numeric: true}, "")
	if n := strings.Count(got, "\n"); err != nil || n != Batch+1 || strings.HasPrefix(got, "total") {
		t.Errorf("%d lines, %v: %.40q", n, err, got)
	}
	seen := map[string]bool{}
	for l := range strings.Lines(got) {
		seen[l[strings.LastIndexByte(l, ' ')+1:]] = true
	}
	if len(seen) != Batch+1 {
		t.Errorf("%d names", len(seen))
	}
	if got, err = r.ls(Options{Long: true, Numeric: true}, ""); err != nil || !strings.HasPrefix(got, "total ") {
		t.Errorf("sorted: %.40q, %v", got, err)
	}
}

// TestJSON: an object per name, with a link's target, and invalid UTF-8 as base64 in a second
// field.
func TestJSON(t *testing.T) {
	r := newRig(t)
	r.tree()
	r.file("d/\xff", 3, 0o711, 0)
	got, err := r.ls(Options{JSON: true, Long: true, Columns: true}, "/d")
	if err != nil {
		t.Fatalf("ls: %v", err)
	}
	var list []Object
	if err := json.Unmarshal([]byte(got), &list); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	byName := map[string]Object{}
	for _, o := range list {
		byName[o.Name] = o
		if o.Directory != "URL/d" || o.Fileid == 0 {
			t.Errorf("%+v", o)
		}
	}
	if len(list) != 6 {
		t.Errorf("%d objects: %s", len(list), got)
	}
	if o := byName["\uFFFD"]; o.NameBase64 != "/w==" || o.Mode != "0711" || o.Size != 3 {
		t.Errorf("a name of no UTF-8: %+v", o)
	}
	if o := byName["link"]; o.Target == nil || *o.Target != "sub" || o.Type != "symbolic link" {
		t.Errorf("a link: %+v", o)
	}
	if o := byName["b"]; o.Type != "regular file" || !o.Mtime.Equal(old) || o.Target != nil || o.Device != nil {
		t.Errorf("a file: %+v", o)
	}
	if got, err = r.ls(Options{JSON: true}, "/d/pipe/none"); err == nil || strings.ReplaceAll(got, "\n", "") != "[]" {
		t.Errorf("nothing to list: %q, %v", got, err)
	}
}

// TestShownTimes: the time of day for the last half year, the year for older and future times.
func TestShownTimes(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		at   time.Time
		year bool
	}{{now.Add(-time.Hour), false}, {now.Add(-halfYear + time.Hour), false}, {now.Add(-halfYear - time.Hour), true}, {now.Add(time.Hour), true}} {
		want := c.at.Format("Jan _2 15:04")
		if c.year {
			want = c.at.Format("Jan _2  2006")
		}
		if got := shownTime(c.at); got != want {
			t.Errorf("%v: %q, want %q", c.at, got, want)
		}
	}
}

// TestTotals: 512-byte blocks are rounded up per file, and shown in units of 1024.
func TestTotals(t *testing.T) {
	var s sum
	for _, used := range []uint64{0, 1, 512, 513} {
		s.add(&row{attr: &nfs3.Fattr{Used: used}})
	}
	s.add(&row{name: "unknown"})
	if s.blocks != 4 {
		t.Errorf("%d blocks, want 4", s.blocks)
	}
}

// TestSigns: a file with any execute bit has a star, whichever class has it. Other types have signs
// only with -F, and directories also with -p.
func TestSigns(t *testing.T) {
	for _, c := range []struct {
		o    Options
		kind nfs3.FileType
		mode uint32
		want string
	}{
		{Options{Classify: true}, nfs3.TypeReg, 0o644, ""}, {Options{Classify: true}, nfs3.TypeReg, 0o744, "*"},
		{Options{Classify: true}, nfs3.TypeReg, 0o654, "*"}, {Options{Classify: true}, nfs3.TypeReg, 0o645, "*"},
		{Options{Classify: true}, nfs3.TypeDir, 0o755, "/"}, {Options{Slash: true}, nfs3.TypeDir, 0o755, "/"},
		{Options{}, nfs3.TypeDir, 0o755, ""}, {Options{Slash: true}, nfs3.TypeReg, 0o755, ""}, {Options{Slash: true}, nfs3.TypeLnk, 0o777, ""},
		{Options{Classify: true}, nfs3.TypeLnk, 0o777, "@"}, {Options{Classify: true}, nfs3.TypeFIFO, 0o777, "|"},
		{Options{Classify: true}, nfs3.TypeSock, 0o777, "="}, {Options{Classify: true}, nfs3.TypeChr, 0o777, ""},
	} {
		if got := (&Run{Options: c.o}).sign(c.kind, c.mode); got != c.want {
			t.Errorf("%+v, %v, %o: %q, want %q", c.o, c.kind, c.mode, got, c.want)
		}
	}
}

// TestOperandsAsTheyAre: with -l a file has no arrow after its name, and with -F a link to a
// directory is listed itself.
func TestOperandsAsTheyAre(t *testing.T) {
	r := newRig(t)
	r.tree()
	got, err := r.ls(Options{Long: true, Numeric: true}, "/d/b", "/d/link")
	if err != nil || !strings.Contains(got, "URL/d/b\n") || !strings.Contains(got, "URL/d/link -> sub\n") || strings.Count(got, "->") != 1 {
		t.Errorf("-l: %q, %v", got, err)
	}
	for _, o := range []Options{{Classify: true}, {Directory: true, Slash: true}, {Long: true, Numeric: true}} {
		if got, err := r.ls(o, "/d/link"); err != nil || !strings.Contains(got, "URL/d/link") || strings.Contains(got, "in\n") {
			t.Errorf("%+v: %q, %v", o, got, err)
		}
	}
	if got, err := r.ls(Options{}, "/d/link"); err != nil || got != "in\n" {
		t.Errorf("without options: %q, %v", got, err)
	}
}

// TestUnsortedListingOfMoreThanABatch: the listing has no total with -l, and -R still enters each
// of its directories.
func TestUnsortedListingOfMoreThanABatch(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.must(r.fsys.Mkdir(ctx, "many", 0o755))
	for i := range Batch + 1 {
		r.must(r.fsys.Mkdir(ctx, fmt.Sprint("many/", i), 0o755))
	}
	got, err := r.ls(Options{Long: true, Numeric: true, Unsorted: true}, "/many")
	if n := strings.Count(got, "\n"); err != nil || n != Batch+1 || strings.Contains(got, "total") {
		t.Errorf("-lU: %d lines, total %v, %v", n, strings.Contains(got, "total"), err)
	}
	got, err = r.ls(Options{Recursive: true, Unsorted: true}, "/many")
	if n := strings.Count(got, "URL/many/"); err != nil || n != Batch+1 {
		t.Errorf("-RU: %d directories, %v", n, err)
	}
	got, err = r.ls(Options{Long: true, Numeric: true}, "/many")
	if err != nil || !strings.HasPrefix(got, "total 0\n") {
		t.Errorf("-l: %.40q, %v", got, err)
	}
}
