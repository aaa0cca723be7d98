// A session's use of paths and flags, and the text of its errors.

package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// newSession returns a session with the command line's defaults.
func newSession(t *testing.T, stderr *strings.Builder) *Session {
	t.Helper()
	s := &Session{Stderr: stderr, Flags: Flags{NConnect: 1, CRC: "on", ConnectTimeout: time.Minute}}
	t.Cleanup(s.Close)
	return s
}

// TestOperandsShareConnections: paths on one server and transport share one connection, and a path
// below an export is found from the export's root.
func TestOperandsShareConnections(t *testing.T) {
	rdma, tcp := serve(t)
	s := newSession(t, new(strings.Builder))
	first, err := s.Operand(t.Context(), tcp+"/mem")
	if err != nil {
		t.Fatalf("Operand: %v", err)
	}
	if err := first.FS.MkdirAll(t.Context(), "a/b", 0o755); err != nil {
		t.Fatalf("MkdirAll: %v", err)
	}
	second, err := s.Operand(t.Context(), tcp+"/mem/a/b")
	if err != nil || second.FS.Client() != first.FS.Client() {
		t.Errorf("another connection, %v", err)
	}
	if n, err := second.FS.Walk(t.Context(), second.Path, true); err != nil || n.Attr.Type != nfs3.TypeDir || second.Arg != tcp+"/mem/a/b" {
		t.Errorf("%+v: %v", second, err)
	}
	other, err := s.Operand(t.Context(), rdma+"/mem/a")
	if err != nil || other.FS.Client() == first.FS.Client() {
		t.Errorf("RDMA over the connection of TCP, %v", err)
	}
}

// TestFlagsCountForPaths: --proto applies to each path, and impossible connections are refused with
// the flag's name.
func TestFlagsCountForPaths(t *testing.T) {
	s := newSession(t, new(strings.Builder))
	s.Flags.Proto = "tcp"
	target, err := s.Target("nfsrdma://host/x")
	if err != nil || target.Transport != nfsclient.TCP {
		t.Errorf("%v over %v, %v", target, target.Transport, err)
	}
	if s.Name(target) != "nfsrdma://host/x" {
		t.Errorf("errors call it %s", s.Name(target))
	}
	for flag, set := range map[string]func(*Flags){
		"--nconnect": func(f *Flags) { f.NConnect = 0 },
		"--crc":      func(f *Flags) { f.CRC = "maybe" },
		"--proto":    func(f *Flags) { f.Proto = "pigeon" },
	} {
		s := newSession(t, new(strings.Builder))
		set(&s.Flags)
		target, err := s.Target("nfs://host/x")
		if err == nil {
			_, err = s.Options(target)
		}
		if err == nil || flag != "--proto" && !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestFailuresAreThoseOfCoreutils: a failure has the operation, the quoted name, and the C
// library's reason. An error that names its operand stays unchanged.
func TestFailuresAreThoseOfCoreutils(t *testing.T) {
	gone := fmt.Errorf("LOOKUP: %w", syscall.ENOENT)
	for _, c := range []struct {
		what, name string
		err        error
		want       string
	}{
		{"cannot remove", "u/a b", gone, "cannot remove 'u/a b': No such file or directory"},
		{"", "u/x", gone, "u/x: No such file or directory"},
		{"cannot open", "u/x", errors.New("plain words"), "cannot open 'u/x': plain words"},
		{"cannot open", "u/x", fmt.Errorf("above: %w", Finished{Text: "all said"}), "above: all said"},
	} {
		if got := Failure(c.what, c.name, c.err).Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFailedOperandsKeepTheOthers: each failure is reported in a line with the whole argument, and
// the other operands are processed.
func TestFailedOperandsKeepTheOthers(t *testing.T) {
	_, tcp := serve(t)
	var stderr strings.Builder
	s := newSession(t, &stderr)
	var done []string
	err := s.EachOperand(t.Context(), cli.NewReporter(&stderr, "rm", nil), "cannot remove", []string{tcp + "/none", tcp + "/mem/a", tcp + "/mem/b"}, func(o Operand) error {
		done = append(done, o.Path)
		if strings.HasSuffix(o.Path, "a") {
			return syscall.EACCES
		}
		return nil
	})
	if !errors.Is(err, cli.ErrReported) || len(done) != 2 {
		t.Errorf("%v after %q", err, done)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "'"+tcp+"/none': ") || lines[1] != "nfsrdma: rm: cannot remove '"+tcp+"/mem/a': Permission denied" {
		t.Errorf("%q", lines)
	}
}

// TestErrorsNameTheWholePath: if an error has a path below the export's root, the message has the
// path as typed.
func TestErrorsNameTheWholePath(t *testing.T) {
	s := &Session{opened: []openedPath{{arg: "nfs://h/x/sub", rest: "sub"}, {arg: "nfs://h/x/sub/deep/", rest: "sub/deep"}}}
	status := &nfsclient.StatusError{Status: nfs3.ErrNoEnt}
	for _, c := range []struct{ err, want error }{
		{&fs.PathError{Op: "open", Path: "sub/f", Err: status}, &fs.PathError{Op: "open", Path: "nfs://h/x/sub/f", Err: status}},
		{&fs.PathError{Op: "open", Path: "sub/deep/f", Err: status}, &fs.PathError{Op: "open", Path: "nfs://h/x/sub/deep/f", Err: status}},
		{&fs.PathError{Op: "open", Path: "sub", Err: status}, &fs.PathError{Op: "open", Path: "nfs://h/x/sub", Err: status}},
		{&fs.PathError{Op: "open", Path: "subway/f", Err: status}, &fs.PathError{Op: "open", Path: "subway/f", Err: status}},
		{&os.LinkError{Op: "symlink", Old: "sub/t", New: "sub/l", Err: status}, &os.LinkError{Op: "symlink", Old: "sub/t", New: "nfs://h/x/sub/l", Err: status}},
		{&os.LinkError{Op: "rename", Old: "sub/t", New: "sub/l", Err: status}, &os.LinkError{Op: "rename", Old: "nfs://h/x/sub/t", New: "nfs://h/x/sub/l", Err: status}},
	} {
		if got := s.InFull(fmt.Errorf("cp: %w", c.err)); got.Error() != "cp: "+c.want.Error() {
			t.Errorf("%q, want %q", got, "cp: "+c.want.Error())
		}
	}
	local := &fs.PathError{Op: "open", Path: "sub/f", Err: syscall.ENOENT}
	if got := s.InFull(local); got != error(local) {
		t.Errorf("a local error became %v", got)
	}
}

// TestMountErrorsSayWhatToDo: the errors for a missing export, and for a directory in a missing
// export, have a remedy.
func TestMountErrorsSayWhatToDo(t *testing.T) {
	_, tcp := serve(t)
	s := newSession(t, new(strings.Builder))
	_, err := s.Operand(t.Context(), tcp+"/none")
	if err == nil || !strings.Contains(err.Error(), "no such export") || !strings.Contains(err.Error(), "nfsrdma showmount") || strings.HasPrefix(err.Error(), tcp) {
		t.Errorf("%v", err)
	}
	_, err = s.Operand(t.Context(), "just/a/path")
	if err == nil || !strings.Contains(ArgError("just/a/path", nfsclient.ErrNotRemote).Error(), "just/a/path: ") {
		t.Errorf("%v", err)
	}
}

func TestPathsBelow(t *testing.T) {
	for _, c := range [][3]string{{"", "f", "f"}, {"d", "f", "d/f"}, {"d/", "f", "d/f"}, {"/", "f", "/f"}} {
		if got := Below(c[0], c[1]); got != c[2] {
			t.Errorf("Below(%q, %q) is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
