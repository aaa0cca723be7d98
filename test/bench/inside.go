// The environment of a run: bound to the selected CPUs, and for root in new namespaces.

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideEnv names an environment variable that marks the measuring process.
const insideEnv = "NFSRDMA_BENCH_INSIDE"

// errPrinted stands for an error that a child process has already printed.
var errPrinted = errors.New("said")

// runInside starts this program again and waits for the child: bound to the CPUs, for root in new
// namespaces, and with env added to its environment. The child's processes end with the child,
// because it is the init process of its namespace. The child is killed when this process dies.
func runInside(cpus string, env ...string) error {
	set, err := parseCPUs(cpus)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(append(os.Environ(), insideEnv+"=1"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
	}
	// The child inherits the CPU affinity of the thread that starts it, and dies with that thread.
	runtime.LockOSThread()
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("-cpus %s: %w", cpus, err)
	}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: root cannot make namespaces here; another user measures without them, and without nfs-ganesha", err)
	} else if err != nil {
		return err
	}
	// The child cleans up; this process only waits for the child.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	if err := cmd.Wait(); err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return errPrinted
		}
		return err
	}
	return nil
}

// parseCPUs parses comma-separated CPU numbers.
func parseCPUs(s string) (set unix.CPUSet, err error) {
	for n := range strings.SplitSeq(s, ",") {
		i, err := strconv.Atoi(n)
		if err != nil || i < 0 || i >= 1024 {
			return set, fmt.Errorf("-cpus %s: want numbers of CPUs between commas", s)
		}
		set.Set(i)
	}
	return set, nil
}

// isolated reports whether this process has its own namespaces.
func isolated() bool { return os.Getpid() == 1 }

// makeInside prepares the namespaces: a /proc with only this namespace's processes, a separate /run
// for rpcbind's socket, and loopback.
func makeInside() error {
	if !isolated() {
		return nil
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return command("ip", "link", "set", "lo", "up")
}

// commands runs command lines, split at spaces.
func commands(lines ...string) error {
	for _, line := range lines {
		words := strings.Fields(line)
		if err := command(words[0], words[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program to its end; its output is in the error.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
