// The meaning of a mount request, and its checks, without a mount or a server.

package mounter

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountopt"
	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// request returns a Request with the given options.
func request(t *testing.T, options string) *Request {
	t.Helper()
	o, err := mountopt.Parse([]string{options}, false)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	r := &Request{Spec: "server:/export", Dir: "/mnt", Options: o}
	if r.Source, err = o.Source(r.Spec); err != nil {
		t.Fatalf("Source: %v", err)
	}
	return r
}

// The time to wait for a server is that of retry=, or else depends on the caller and on bg.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		options string
		helper  bool
		want    time.Duration
	}{
		{"", false, 0}, {"", true, 2 * time.Minute}, {"bg", false, 10000 * time.Minute}, {"bg", true, 10000 * time.Minute},
		{"retry=0", true, 0}, {"bg,retry=3", false, 3 * time.Minute},
	} {
		r := request(t, c.options)
		if r.Helper = c.helper; r.retry() != c.want {
			t.Errorf("%q, by mount(8) %v: %v, want %v", c.options, c.helper, r.retry(), c.want)
		}
	}
}

// Exactly the options given for a mount reach fusefs.
func TestFUSEOptions(t *testing.T) {
	lines := 0
	f := request(t, "ro,softerr,nocto,lookupcache=pos,memory=64M,uid=7,gid=8,noatime,nosuid,actimeo=5,nordirplus,default_permissions").fuseOptions(func(string) { lines++ })
	f.Log("x")
	words := strings.Join(f.FuseOptions, " ")
	switch {
	case !f.ReadOnly, !f.SoftErr, !f.NoCTO, !f.NoReaddirplus, !f.DefaultPermissions, lines != 1:
		t.Errorf("%+v", f)
	case f.LookupCache != fusefs.LookupPositive, f.Memory != 64<<20, f.Source != "server:/export":
		t.Errorf("%+v", f)
	case f.Cred == nil, f.Cred.UID != 7, f.Cred.GID != 8:
		t.Errorf("acts as %+v", f.Cred)
	case f.AcRegMin != 5*time.Second, f.AcDirMax != 5*time.Second:
		t.Errorf("%v, %v", f.AcRegMin, f.AcDirMax)
	case !strings.Contains(words, "noatime"), !strings.Contains(words, "nosuid"):
		t.Errorf("words of the mount: %s", words)
	}
	words = strings.Join(request(t, `nosymfollow,context="u:r:t:s0:c1,c2"`).fuseOptions(nil).FuseOptions, " ")
	if !strings.Contains(words, "nosymfollow") {
		t.Errorf("words of the mount: %s, want nosymfollow", words)
	}
	if got := strings.Contains(words, `context="u:r:t:s0:c1,c2"`); got != selinux() {
		t.Errorf("words of the mount: %s; SELinux is on: %v", words, selinux())
	}
	f = request(t, "noac,noacl").fuseOptions(nil)
	if !f.NoAC || !f.Sync || f.AcRegMin >= 0 || f.AcDirMax >= 0 {
		t.Errorf("noac: %+v, want NoAC, Sync, and times below 0", f)
	}
	if !f.NoACL || request(t, "acl").fuseOptions(nil).NoACL {
		t.Errorf("noacl: NoACL is %v, and the reverse for acl", f.NoACL)
	}
	if f.Cred != nil || f.Memory != 0 {
		t.Errorf("defaults: credential %v, memory %d, want none and 0", f.Cred, f.Memory)
	}
	if f.Announce == nil || f.LockDir == "" || (f.StableDir != "" && f.Boot != "") != (os.Geteuid() == 0) {
		t.Errorf("locks: %+v", f)
	}
	if f := request(t, "nolock").fuseOptions(nil); f.Announce != nil || f.LockDir != "" || f.StableDir != "" {
		t.Errorf("nolock: %+v", f)
	}
	if root := os.Geteuid() == 0; f.AllowOther != root || f.Direct != root || request(t, "noallow_other").fuseOptions(nil).AllowOther {
		t.Errorf("root %v: %+v", root, f)
	}
}

// Usable mount points are accepted; others give one line.
func TestCheckPoint(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatalf("filepath.EvalSymlinks: %v", err)
	}
	dir, link, file := filepath.Join(top, "dir"), filepath.Join(top, "link"), filepath.Join(top, "file")
	must.Succeed(t, os.Mkdir(dir, 0o700), os.Symlink("dir", link), os.WriteFile(file, nil, 0o600))
	for _, arg := range []string{dir, link, link + "/../dir/"} {
		if got, err := CheckPoint(arg); err != nil || got != dir {
			t.Errorf("%s: %q, %v", arg, got, err)
		}
	}
	for arg, want := range map[string]string{filepath.Join(top, "none"): "make it with mkdir", file: "not a directory", filepath.Join(file, "x"): "not a directory"} {
		if _, err := CheckPoint(arg); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), arg+": ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// Users may use allow_other if the machine's file has that line, alone and not in a comment.
func TestUserAllowOther(t *testing.T) {
	was := fuseConf
	t.Cleanup(func() { fuseConf = was })
	fuseConf = filepath.Join(t.TempDir(), "fuse.conf")
	if userAllowOther() {
		t.Error("without a file")
	}
	for text, want := range map[string]bool{"user_allow_other\n": true, "#user_allow_other\n": false, "mount_max = 9\n user_allow_other": true, "user_allow_others\n": false} {
		must.Succeed(t, os.WriteFile(fuseConf, []byte(text), 0o600))
		if userAllowOther() != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// fusermount3's messages become errors that callers recognize.
func TestFusermount(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		script string
		want   func(error) bool
	}{
		{`test "$*" = "-u -z -- /mnt/a b"`, func(err error) bool { return err == nil }},
		{`echo "fusermount3: failed to unmount /mnt: Device or resource busy" >&2; exit 1`, func(err error) bool { return errors.Is(err, syscall.EBUSY) }},
		{`echo "fusermount3: entry for /mnt not found" >&2; exit 1`, func(err error) bool { return err != nil && strings.Contains(err.Error(), "not found") }},
		{`exit 3`, func(err error) bool { return err != nil }},
	} {
		if err := os.WriteFile(filepath.Join(dir, "fusermount3"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatalf("os.WriteFile: %v", err)
		}
		if err := fusermount("/mnt/a b", true); !c.want(err) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
}

// Unmounting a directory without a mount fails with one line that has the name as typed.
func TestUnmountOfNothing(t *testing.T) {
	var notes bytes.Buffer
	err := Unmount(t.Context(), t.TempDir()+"/none", false, &notes)
	if err == nil || !strings.Contains(err.Error(), "/none: not mounted") || notes.Len() > 0 {
		t.Errorf("%v, %q", err, notes.String())
	}
}

// From its start a log file gets each line with its time. A file that cannot be opened is an error
// of the flag.
func TestLogFile(t *testing.T) {
	var terminal bytes.Buffer
	file := filepath.Join(t.TempDir(), "log")
	l, err := NewLog(&terminal, file, false)
	if err != nil {
		t.Fatalf("NewLog: %v", err)
	}
	l.Line("one")
	l.Line("two")
	b, err := os.ReadFile(file)
	if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 3 || !strings.HasSuffix(lines[0], "]: one") || terminal.Len() > 0 {
		t.Errorf("%q, %v; on the terminal %q", b, err, terminal.String())
	}
	if l, err = NewLog(&terminal, "", false); err != nil {
		t.Fatalf("NewLog: %v", err)
	}
	if l.Line("three"); terminal.String() != "nfsrdma: three\n" {
		t.Errorf("on the terminal %q", terminal.String())
	}
	if _, err = NewLog(&terminal, filepath.Join(file, "x"), false); err == nil || !strings.Contains(err.Error(), "--log-file") || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// rdmaReason returns the reason in brackets, without the server's name.
func TestWhy(t *testing.T) {
	r := request(t, "proto=auto")
	if got := r.rdmaReason(errors.New("server:/export: connection refused")); got != " (RDMA: connection refused)" || r.rdmaReason(nil) != "" {
		t.Errorf("%q", got)
	}
	if len(r.Source.Targets) != 2 {
		t.Errorf("%+v", r.Source)
	}
}
