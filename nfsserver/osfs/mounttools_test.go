// Tools for tests that mount: privileges, packages and images.

package osfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// run runs a program, and ends the test if the program fails.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// mountOn makes a directory and mounts a file system on it until the test ends.
func mountOn(t *testing.T, dir string, args ...string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(dir, 0o755))
	run(t, append(append([]string{"mount"}, args...), dir)...)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// write writes a file and the directories above it.
func write(t *testing.T, content string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	must.Succeed(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644))
}

// sshfsPrograms has the programs that an sshfs mount of this machine needs.
var sshfsPrograms = []string{"sshfs", "/usr/lib/openssh/sftp-server"}

// sshfs returns the command that mounts source on dir. sshfs runs ssh with arguments; a script in
// scratch takes ssh's place, and runs the server.
func sshfs(t *testing.T, scratch, source, dir string) []string {
	t.Helper()
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", sshfsPrograms...)
	ssh := filepath.Join(scratch, "ssh")
	must.Succeed(t, os.WriteFile(ssh, []byte("#!/bin/sh\nexec "+sshfsPrograms[1]+"\n"), 0o755))
	return []string{"sshfs", "-o", "dir_cache=no,ssh_command=" + ssh, "host:" + source, dir}
}
