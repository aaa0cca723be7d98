// Where copies go: the destination as a file, a directory, a new name, a name with a slash; one
// source and several.

package treecopy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// setup returns a directory with a file "f", a full directory "d", and a link to each.
func setup(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	write(t, "file", top, "f")
	write(t, "in d", top, "d/x")
	must.Succeed(t, os.Symlink("f", top+"/lf"), os.Symlink("d", top+"/ld"), os.Symlink("none", top+"/dangling"))
	return top
}

// A destination is one form of the last operand, with its result.
type destination struct {
	what string
	o    Options
	src  []string
	dst  string
	said string // the message, with the destination's path replaced by DST
	made string // the names that the copy makes
}

// TestDestinations: the targets of a file and a directory, and the errors for impossible ones.
func TestDestinations(t *testing.T) {
	for _, c := range []destination{
		{"a new name", Options{}, []string{"s"}, "new", "", "new"},
		{"into a directory", Options{}, []string{"s"}, "d", "", "d/s"},
		{"into a directory with a slash", Options{}, []string{"s"}, "d/", "", "d/s"},
		{"into a linked directory", Options{}, []string{"s"}, "ld", "", "d/s"},
		{"two into a directory", Options{}, []string{"s", "s2"}, "d", "", "d/s d/s2"},
		{"two to a file", Options{}, []string{"s", "s2"}, "f", "target 'DST': not a directory", ""},
		{"two to nothing", Options{}, []string{"s", "s2"}, "new", "target 'DST': no such file or directory", ""},
		{"a new name with a slash", Options{}, []string{"s"}, "new/", "cannot create regular file 'DST': not a directory", ""},
		{"a directory to a new name with a slash", Options{Recursive: true}, []string{"t"}, "new/", "", "new new/y"},
		{"a directory to a new name", Options{Recursive: true}, []string{"t"}, "new", "", "new new/y"},
		{"a directory into a directory", Options{Recursive: true}, []string{"t"}, "d", "", "d/t d/t/y"},
		{"a directory without -r", Options{}, []string{"t"}, "new", "-r not specified; omitting directory", ""},
		{"-t to a directory", Options{TargetDir: true}, []string{"s"}, "d", "", "d/s"},
		{"-t to a file", Options{TargetDir: true}, []string{"s"}, "f", "target directory 'DST': not a directory", ""},
		{"-t to nothing", Options{TargetDir: true}, []string{"s"}, "new", "target directory 'DST': no such file or directory", ""},
		{"-T to a new name", Options{NoTargetDir: true}, []string{"s"}, "new", "", "new"},
		{"-T, a file to a directory", Options{NoTargetDir: true}, []string{"s"}, "d", "cannot overwrite directory 'DST' with non-directory", ""},
		{"-T, a directory to a directory", Options{NoTargetDir: true, Recursive: true}, []string{"t"}, "d", "", "d/y"},
		{"-T, a directory to a file", Options{NoTargetDir: true, Recursive: true}, []string{"t"}, "f", "cannot overwrite non-directory 'DST' with directory", ""},
		{"a directory to a file", Options{Recursive: true}, []string{"t"}, "f", "cannot overwrite non-directory 'DST' with directory", ""},
		{"below a file", Options{}, []string{"s"}, "f/new", "cannot stat 'DST': not a directory", ""},
		{"below nothing", Options{}, []string{"s"}, "none/new", "cannot create regular file 'DST': no such file or directory", ""},
		{"through a dangling link", Options{}, []string{"s"}, "dangling", "not writing through dangling symlink 'DST'", ""},
		{"what is not there", Options{}, []string{"nothing"}, "new", "cannot stat '", ""},
		{"one of two is not there", Options{}, []string{"nothing", "s"}, "d", "cannot stat '", "d/s"},
		{"the same twice", Options{}, []string{"s", "s"}, "d", "warning: source file '", "d/s"},
		{"the same directory twice", Options{Recursive: true}, []string{"t", "t"}, "d", "warning: source directory '", "d/t d/t/y"},
		{"a directory's content by dot", Options{Recursive: true}, []string{"t/."}, "d", "", "d/y"},
		{"a directory's content by dots", Options{Recursive: true}, []string{"t/sub/.."}, "d", "", "d/y"},
	} {
		for _, side := range []string{"local", "remote"} {
			copyTo(t, c, side)
		}
	}
}

// copyTo copies to the destination c, on this machine or on a server.
func copyTo(t *testing.T, c destination, side string) {
	top, from := setup(t), t.TempDir()
	write(t, "source", from, "s")
	write(t, "second", from, "s2")
	write(t, "in t", from, "t/y")
	if strings.Contains(c.src[0], "sub") {
		must.Succeed(t, os.Mkdir(from+"/t/sub", 0o755))
		c.made = strings.TrimSuffix(c.made, " d/sub") + " d/sub"
	}
	dst := local(top + "/" + c.dst)
	if side == "remote" {
		r := newRig(t, asCaller)
		cp(t, Options{Recursive: true, Follow: FollowNever, NoTargetDir: true}, local(r.dir), local(top)).want(t)
		top = r.dir
		dst = at(r.mount(t, "/dir"), "/"+c.dst)
	}
	before := names(t, top)
	var sources []Operand
	for _, s := range c.src {
		sources = append(sources, local(from+"/"+s))
	}
	l := cp(t, c.o, dst, sources...)
	for i := range l.lines {
		// drops a server's status in parentheses
		line, _, _ := strings.Cut(strings.ReplaceAll(l.lines[i], dst.Text, "DST"), " (")
		l.lines[i] = walked.ReplaceAllString(line, ": ")
	}
	if c.said == "" {
		l.want(t)
	} else {
		l.want(t, c.said)
	}
	var made []string
	for _, name := range strings.Fields(names(t, top)) {
		if !strings.Contains(" "+before+" ", " "+name+" ") {
			made = append(made, name)
		}
	}
	if got := strings.Join(made, " "); got != strings.Join(sorted(c.made), " ") {
		t.Errorf("%s, %s: made %q, want %q", c.what, side, got, c.made)
	}
	wantFile(t, "in d", top, "d/x")
	if t.Failed() {
		t.Fatalf("%s, %s", c.what, side)
	}
}

// walked matches the additional path in an error of a remote tree.
var walked = regexp.MustCompile(": walk [^:]*: ")

// sorted returns the words of s in the same order as names.
func sorted(s string) []string {
	list := strings.Fields(s)
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

// TestOperandsWithoutATree: unreachable operands are reported in order, and the others are copied.
func TestOperandsWithoutATree(t *testing.T) {
	src, dst := write(t, "x", t.TempDir(), "src"), t.TempDir()
	bad := Operand{Text: "nfs://nowhere/x", Name: "x", Err: errors.New("cannot reach 'nfs://nowhere/x'")}
	cp(t, Options{}, local(dst), bad, local(src), bad).want(t, "cannot reach 'nfs://nowhere/x'", "cannot reach 'nfs://nowhere/x'")
	wantFile(t, "x", dst, "src")
	cp(t, Options{Recursive: true}, local(dst+"/new/"), bad).want(t, "cannot reach")
	if got := names(t, dst); got != "src" {
		t.Errorf("left: %s", got)
	}
}

// TestEndOfTheRun: when the context has ended, no message appears. If a server does not answer, one
// message appears, and the sources after it are not copied.
func TestEndOfTheRun(t *testing.T) {
	src, dst := write(t, "x", t.TempDir(), "src"), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &log{}
	if err := New(l.options(Options{})).Copy(ctx, []Operand{local(src)}, local(dst)); !errors.Is(err, context.Canceled) || len(l.lines) > 0 {
		t.Errorf("%v, %q", err, l.lines)
	}
	gone := &fake{open: func(Meta, Source) (Source, error) {
		return nil, &transport.ConnectError{Service: "nfs", Addr: "server:2049", Err: unix.ECONNREFUSED}
	}}
	l = cp(t, Options{}, local(dst), at(gone, src), local(src))
	if len(l.lines) != 1 || !strings.HasPrefix(l.lines[0], "cannot open '"+src+"' for reading: ") {
		t.Errorf("said %q", l.lines)
	}
	if got := names(t, dst); got != "" {
		t.Errorf("made %s", got)
	}
}

// TestFollowOfOperands: -H follows links among the operands, -P none, -L all.
func TestFollowOfOperands(t *testing.T) {
	src := setup(t)
	for how, links := range map[Follow]string{FollowNever: "lf t/lf", FollowOperands: "t/lf", FollowAlways: ""} {
		dst := t.TempDir()
		must.Succeed(t, os.MkdirAll(src+"/t", 0o755))
		_ = os.Symlink("../f", src+"/t/lf")
		cp(t, Options{Recursive: true, Follow: how}, local(dst), local(src+"/lf"), local(src+"/t")).want(t)
		var got []string
		for _, name := range strings.Fields(names(t, dst)) {
			if fi, err := os.Lstat(filepath.Join(dst, name)); err == nil && fi.Mode()&os.ModeSymlink != 0 {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != links {
			t.Errorf("%d: the links are %q, want %q", how, got, links)
		}
	}
}
