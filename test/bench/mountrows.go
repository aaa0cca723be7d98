// The mount group: programs on a mount, and the CPU time of both ends.

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The tree of the mount group: files of workSmall bytes.
const (
	treeDirs  = 100
	treeFiles = 100 // in each directory
)

// mountTests are the tests in the mount group, and the names of its rows.
var mountTests = []string{"git status cold", "git status warm", "untar", "rm -r"}

// program returns a test's command at the clients' end, and whether the mount must be new. kept is
// the kept tree, and dir this side's directory.
func (b *bed) program(ctx context.Context, test, kept, dir string) (cmd *exec.Cmd, cold bool) {
	switch test {
	case "untar":
		cmd = b.clientCommand(ctx, "tar", "-xf", b.archive(), "-C", dir)
	case "rm -r":
		cmd, cold = b.clientCommand(ctx, "rm", "-r", filepath.Join(dir, "tree")), true
	default:
		cmd, cold = b.clientCommand(ctx, "git", "-C", kept, "status"), strings.HasSuffix(test, "cold")
	}
	cmd.Env = gitEnv()
	return cmd, cold
}

// gitEnv makes git ignore this machine's configuration and accept a tree of any owner.
func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
}

// archive returns the path of the tree's archive.
func (b *bed) archive() string { return filepath.Join(b.base, "tree.tar") }

// layOutTree makes the archive, and in the served directory a tree with a repository of its files.
func (b *bed) layOutTree(ctx context.Context) error {
	kept := filepath.Join(b.served, "tree")
	for i := range treeDirs {
		dir := filepath.Join(kept, fmt.Sprintf("dir%02d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if _, err := createFiles(dir, treeFiles, 1); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", `tar -cf "$ARCHIVE" -C .. tree
git init -q
git add -A
git -c user.name=bench -c user.email=bench@localhost commit -q -m tree
git repack -a -d -q`)
	cmd.Dir, cmd.Env = kept, append(gitEnv(), "ARCHIVE="+b.archive())
	_, err := output(cmd)
	return err
}

// sampleMount runs programs on a side's mount. It adds their times in s, and in ms the CPU time of
// the server, and of the mount's process plus the program.
func (b *bed) sampleMount(ctx context.Context, at string, s *side) (err error) {
	client := 0
	dir, err := os.MkdirTemp(b.base, "mount-")
	if err != nil {
		return err
	}
	defer func() {
		if client != 0 {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			_ = b.stop(client)
		}
		_ = os.Remove(dir)
		_ = os.RemoveAll(filepath.Join(b.served, "fresh"))
	}()
	for _, test := range mountTests {
		cmd, cold := b.program(ctx, test, filepath.Join(dir, "tree"), filepath.Join(dir, "fresh"))
		if cold && client != 0 {
			if err := b.unmount(dir, client); err != nil {
				return err
			}
		}
		if cold {
			if client, err = b.mount(ctx, s.server, dir); err != nil {
				return err
			}
		}
		if test == "untar" {
			if err := os.Mkdir(filepath.Join(dir, "fresh"), 0o755); err != nil {
				return err
			}
		}
		pids := map[string]int{"/cpu": s.server.pid, "/clientcpu": client}
		if err := s.samples.addProgram(at+"/"+test+"/"+string(rdma), cmd, pids); err != nil {
			return err
		}
	}
	return nil
}

// addProgram runs a program. It adds its time in s and the processes' CPU times in ms; "/clientcpu"
// includes the program's.
func (s samples) addProgram(key string, cmd *exec.Cmd, pids map[string]int) error {
	before, err := cpuTimes(pids)
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := output(cmd); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := cpuTimes(pids)
	if err != nil {
		return err
	}
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	after["/clientcpu"] += float64(own.Microseconds())
	s.add(key, took.Seconds())
	for name := range pids {
		s.add(key+name, (after[name]-before[name])/1e3)
	}
	return nil
}

// mount mounts a server's export at a directory, by the client in the server's programs.
func (b *bed) mount(ctx context.Context, s *server, dir string) (pid int, err error) {
	cmd := b.clientCommand(context.WithoutCancel(ctx), filepath.Join(s.programs, "nfsrdma"), "mount", "-f", "-o",
		"nolock,port="+port(s.rdma)+",mountport="+port(s.tcp), b.host+":"+s.export, dir)
	if err := b.startAs("nfsrdma", cmd); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, b.awaitMount(ctx, dir, "nfsrdma")
}

// unmount unmounts after all written data is stable, and ends the process.
func (b *bed) unmount(dir string, pid int) error {
	if err := unix.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return b.stop(pid)
}

// awaitMount waits until a directory is a mount point.
func (b *bed) awaitMount(ctx context.Context, at, name string) error {
	var below, here unix.Stat_t
	if err := unix.Stat(filepath.Dir(at), &below); err != nil {
		return err
	}
	for end := time.Now().Add(startTime); ; {
		if err := unix.Stat(at, &here); err == nil && here.Dev != below.Dev {
			return nil
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(b.base, name+".log"))
			return fmt.Errorf("%s does not mount %s\n%s", name, at, log)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
