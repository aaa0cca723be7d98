// The rig for measurements of mounts: child processes with symbolic links as mounts, so that no
// FUSE is needed.

package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// How a stand-in treats its mount.
const (
	keepsOrder = "keeps order" // mounts, and unmounts when its standard input ends
	startsNot  = "starts not"  // ends before it has mounted
	endsBadly  = "ends badly"  // unmounts, and then fails
	staysThere = "stays there" // ends without unmounting
	showsOther = "shows other" // its directory has a file of zeros instead of the data
)

// A standIn is a child process in place of a mount: its mount point is a link to the directory.
type standIn struct {
	mode, what, dir string
	log             string // a line for each mount and unmount
}

func (s *standIn) serve() error {
	if s.mode == startsNot {
		os.Exit(1)
	}
	if s.mode == showsOther {
		if err := s.makeOther(); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Remove(s.dir), os.Symlink(s.what, s.dir), s.note("+")); err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if s.mode == staysThere {
		return nil
	}
	if err := errors.Join(os.Remove(s.dir), os.Mkdir(s.dir, 0o755), s.note("-")); err != nil {
		return err
	}
	if s.mode == endsBadly {
		os.Exit(3)
	}
	return nil
}

// makeOther mounts a separate directory. The measuring process's number is in the name of the
// working directory.
func (s *standIn) makeOther() error {
	s.what = s.log + "-other"
	work := filepath.Join(s.what, fmt.Sprintf(".nfsrdma-bench-%d", os.Getppid()))
	return errors.Join(os.MkdirAll(work, 0o755), os.WriteFile(filepath.Join(work, "data"), make([]byte, 2*seqBlock), 0o644))
}

func (s *standIn) note(what string) error {
	f, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, what+strings.TrimPrefix(filepath.Base(s.dir), "mnt-"))
	return err
}

// A mountTest is a server of a directory, with everything for a measurement of its mount.
type mountTest struct {
	rig      MountRig
	opts     MountOptions
	exported string            // the directory that the server exports
	log      string            // the stand-ins' log file
	modes    map[string]string // the stand-ins' behavior; the default is keepsOrder
	tree     *liar
}

// newMountTest serves a directory, which is also the loopback's.
func newMountTest(t *testing.T) *mountTest {
	t.Helper()
	dir := t.TempDir()
	m := &mountTest{exported: filepath.Join(dir, "exported"), log: filepath.Join(dir, "log"), modes: map[string]string{},
		opts: MountOptions{Rounds: 1, Depth: 2, Size: 2 * seqBlock, Duration: time.Millisecond}}
	null := filepath.Join(dir, "null")
	m.rig = MountRig{Scratch: filepath.Join(dir, "scratch"), Loopback: m.exported, Same: true,
		Clear: func(dir string) bool { return os.Remove(dir) == nil }}
	for _, name := range []string{m.exported, m.rig.Scratch, null} {
		must.Succeed(t, os.Mkdir(name, 0o755))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(null, "data"), make([]byte, m.opts.Size), 0o644))
	served, err := osfs.New(m.exported, osfs.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { served.Close() })
	m.tree = &liar{FS: served}
	m.rig.FS = serve(t, nfsclient.TCP, m.tree)
	m.rig.Peer = func(mount, dir string) []string {
		mode := m.modes[mount]
		if mode == "" {
			mode = keepsOrder
		}
		what := map[string]string{MountOurs: m.exported, MountNull: null, MountLoopback: m.rig.Loopback}[mount]
		return []string{"_mount", mode, what, dir, m.log}
	}
	return m
}

// measure measures, and fails the test if any file remains or a mount stays.
func (m *mountTest) measure(t *testing.T) (*MountReport, error) {
	t.Helper()
	r := new(MountReport)
	err := Mount(t.Context(), m.rig, m.opts, r)
	m.nothingLeft(t)
	return r, err
}

func (m *mountTest) nothingLeft(t *testing.T) {
	t.Helper()
	for _, dir := range []string{m.rig.Scratch, m.exported, m.rig.Loopback} {
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("left behind in %s: %v, %v", dir, names, err)
		}
	}
	mounted := 0
	for _, line := range m.mounts(t) {
		if mounted--; line[0] == '+' {
			mounted += 2
		}
	}
	if mounted != 0 {
		t.Errorf("%d mounts more than unmounts: %q", mounted, m.mounts(t))
	}
}

// mounts returns the stand-ins' log lines: "+mount", "-null", and the like.
func (m *mountTest) mounts(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(m.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("os.ReadFile: %v", err)
	}
	return strings.Fields(string(b))
}

// fakePrograms replaces PATH by scripts that first record their arguments. The returned function
// reads the record.
func fakePrograms(t *testing.T, scripts map[string]string) func() []string {
	t.Helper()
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	for name, script := range scripts {
		text := "#!/bin/sh\necho " + name + " \"$@\" >> " + asked + "\n" + script + "\n"
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", dir)
	return func() []string {
		b, err := os.ReadFile(asked)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

var _ nfsserver.FS = (*osfs.FS)(nil)
