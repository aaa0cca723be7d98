// Actions on the served machine while clients are at work: run, delete, mount, unmount.

package stack

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"golang.org/x/sys/unix"
)

// eventually tries do until it succeeds: this takes a second, or minutes on a busy machine.
func eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// TestUploadedProgramRuns: an uploaded program runs on the server's machine while its client still
// reads it.
func TestUploadedProgramRuns(t *testing.T) {
	dir := t.TempDir()
	fsys := rig.Start(t, rig.Config{Dir: dir}).Mount(t, nfsclient.Options{})
	ctx := context.Background()
	script := []byte("#!/bin/sh\necho ran\n")
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for name, content := range map[string][]byte{"script": script, "program": program} {
		if err := fsys.WriteFile(ctx, name, content, 0o755); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		eventually(t, "running "+name, func() error {
			if b, err := fsys.ReadFile(ctx, name); err != nil || !bytes.Equal(b, content) {
				t.Fatalf("reading it meanwhile: %v", err)
			}
			return exec.Command(filepath.Join(dir, name)).Run()
		})
		if err := fsys.WriteFile(ctx, name, content, 0o755); err != nil {
			t.Errorf("writing %s again: %v", name, err)
		}
	}
}

// mountTmpfs mounts a small tmpfs, or skips the test.
func mountTmpfs(t *testing.T, dir string) {
	t.Helper()
	machine.NeedRoot(t, "not root: what is mounted in an export is not tested")
	must.Succeed(t, os.MkdirAll(dir, 0o755), unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4M"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// TestDeletedFileGivesSpaceBack: after a client has read and written a file, and the machine
// deletes it, its space is free.
func TestDeletedFileGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	mountTmpfs(t, dir)
	fsys := rig.Start(t, rig.Config{Dir: dir}).Mount(t, nfsclient.Options{})
	ctx := context.Background()
	if err := fsys.WriteFile(ctx, "big", make([]byte, 3<<20), 0o644); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	must.Succeed(t, os.Remove(filepath.Join(dir, "big")))
	eventually(t, "having the space back", func() error {
		st, err := fsys.StatFS(ctx)
		if err == nil && st.Tbytes-st.Fbytes > 1<<20 {
			err = errors.New("it is still used")
		}
		return err
	})
}

// TestMountInsideExport: by default clients see the mount point as an empty directory. With
// CrossMounts they see a separate file system, which can be unmounted.
func TestMountInsideExport(t *testing.T) {
	for name, cross := range map[string]bool{"nocrossmnt": false, "crossmnt": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inner := filepath.Join(dir, "inner")
			mountTmpfs(t, inner)
			must.Succeed(t, os.WriteFile(filepath.Join(inner, "file"), []byte("content"), 0o644))
			fsys := rig.Start(t, rig.Config{Dir: dir, FS: osfs.Options{CrossMounts: cross}}).Mount(t, nfsclient.Options{})
			ctx := context.Background()
			b, err := fsys.ReadFile(ctx, "inner/file")
			all, errStat := fsys.StatFS(ctx)
			st, errOf := fsys.StatFSOf(ctx, "inner")
			list, errList := fsys.ReadDir(ctx, "inner")
			must.Succeed(t, errStat, errOf, errList)
			switch {
			case !cross && (!errors.Is(err, fs.ErrNotExist) || len(list) != 0 || st.Tbytes != all.Tbytes):
				t.Errorf("what is mounted is seen: %q, %v, %d entries, %d bytes of room", b, err, len(list), st.Tbytes)
			case cross && (err != nil || string(b) != "content" || len(list) != 1 || st.Tbytes != 4<<20):
				t.Errorf("what is mounted is not served: %q, %v, %d entries, %d bytes of room", b, err, len(list), st.Tbytes)
			}
			eventually(t, "unmounting it", func() error { return unix.Unmount(inner, 0) })
		})
	}
}
