// Every command that a server refuses prints the reason that the server shows.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// serveSquashed exports a private directory of this user in memory, with all callers squashed,
// and returns its URL.
func serveSquashed(t *testing.T) string {
	t.Helper()
	tree := memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o700})
	squash := nfsserver.Squash{All: true, UID: nfsserver.Nobody, GID: nfsserver.Nobody}
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, Exports: []nfsserver.Export{{Name: "/mem", FS: tree}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { srv.Close() })
	_, tcp := servePrograms(t, srv.Programs()...)
	return tcp + "/mem"
}

func TestRefusedCommands(t *testing.T) {
	url := serveSquashed(t)
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	want := "perhaps uid "
	if os.Geteuid() == 0 {
		want = "root acts as another user there (root_squash; to change it: no_root_squash in exports(5); nfsrdmad: --no-root-squash)"
	}
	for _, args := range []string{
		"ls U", "ls -l U/x", "cat U/x", "stat U/x", "cp " + file + " U/x", "cp U/x " + file, "cp -r U " + file + "s", "mkdir U/d", "mkdir -p U/d/e", "rm U/x", "rm -r U/x",
		"mv U/x U/y", "mv " + file + " U/x", "ln -s x U/l", "ln U/x U/l", "bench --no-raw --tests getattr,write --duration 1ms U",
	} {
		_, errs, code := try(t, strings.Fields(strings.ReplaceAll(args, "U", url))...)
		if code == 0 {
			t.Errorf("nfsrdma %s: not refused", args)
		}
		var reasons []string
		for line := range strings.Lines(errs) {
			if strings.HasPrefix(line, "nfsrdma: 127.0.0.1:/mem: ") {
				reasons = append(reasons, line)
			}
		}
		if len(reasons) != 1 {
			t.Errorf("nfsrdma %s: %d reasons, want 1: %q", args, len(reasons), errs)
			continue
		}
		if !strings.Contains(reasons[0], want) {
			t.Errorf("nfsrdma %s: %q, want %q", args, reasons[0], want)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("mv removed the file that it did not move: %v", err)
	}
}

// TestPortInALocalPath: HOST:PORT/path is parsed as a local path, and the error says how to write a
// remote path.
func TestPortInALocalPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, args := range [][]string{{"cp", file, "server:35049/mnt/"}, {"cp", "server:35049/mnt/a", file}, {"mv", file, "server:35049/mnt/"}} {
		_, errs, code := try(t, args...)
		if code != 1 || !strings.Contains(errs, "a port is written nfsrdma://HOST:PORT/export/path") {
			t.Errorf("nfsrdma %q: status %d, %q", args, code, errs)
		}
	}
}
