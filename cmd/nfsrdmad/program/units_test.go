// The units in deploy: systemd's rating, and the permissions that they give the server, neither too
// few nor too many.

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/control"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"golang.org/x/sys/unix"
)

const unitFile = "../../../deploy/nfsrdmad.service"

// unitWords returns the words of all lines with a setting in the unit.
func unitWords(t *testing.T, setting string) (words []string) {
	t.Helper()
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, m := range regexp.MustCompile(`(?m)^`+setting+`=(.*)$`).FindAllSubmatch(unit, -1) {
		words = append(words, strings.Fields(string(m[1]))...)
	}
	if len(words) == 0 {
		t.Fatalf("the unit has no %s=", setting)
	}
	return words
}

// TestUnits: systemd accepts the units, and rates their exposure as low.
func TestUnits(t *testing.T) {
	machine.NeedRoot(t, "runs services as the system does: needs root", "systemd-analyze")
	dir := t.TempDir()
	var units []string
	for _, name := range []string{"nfsrdmad.service", "nfsrdmad.socket"} {
		text, err := os.ReadFile("../../../deploy/" + name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		// systemd-analyze needs an existing program, so this binary replaces the installed one.
		text = bytes.ReplaceAll(text, []byte("/usr/local/sbin/nfsrdmad"), []byte(os.Args[0]))
		put(t, filepath.Join(dir, name), string(text))
		units = append(units, filepath.Join(dir, name))
	}
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=32", units[0]).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// TestUnitsSayThingsOnce: no unit has the same line twice.
func TestUnitsSayThingsOnce(t *testing.T) {
	units := 0
	for _, kind := range []string{"service", "socket", "mount", "automount"} {
		names, err := filepath.Glob("../../../deploy/*." + kind)
		if err != nil {
			t.Fatalf("filepath.Glob: %v", err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			units++
			seen := map[string]bool{}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "=") && !strings.HasPrefix(line, "#") && seen[line] {
					t.Errorf("%s has %q twice", filepath.Base(name), line)
				}
				seen[line] = true
			}
		}
	}
	if units < 6 {
		t.Errorf("%d units, want those of two servers and a mount", units)
	}
}

// TestUnitsControlSocket: the reload commands of a unit and of logrotate reach the server, whatever
// socket its flags name.
func TestUnitsControlSocket(t *testing.T) {
	for _, name := range []string{"nfsrdmad", "nfsrdmad-juicefs"} {
		unit, err := os.ReadFile("../../../deploy/" + name + ".service")
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		socket := func(setting string) string {
			line := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindSubmatch(unit)
			if line == nil {
				t.Fatalf("%s has no %s", name, setting)
			}
			words := strings.Fields(regexp.MustCompile(`\$\w+OPTIONS`).ReplaceAllString(string(line[1]), "--control /elsewhere --lease 5m"))
			f := newServe(nil).Flags()
			f.ParseErrorsAllowlist.UnknownFlags = true
			if err := f.Parse(words[2:]); err != nil {
				t.Fatalf("Parse: %v", err)
			}
			return f.Lookup("control").Value.String()
		}
		logrotate, err := os.ReadFile("../../../deploy/packages/" + name + ".logrotate")
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		usual := filepath.Join(control.RunDir, strings.Replace(name, "nfsrdmad", "nfsrdma", 1), "control")
		if strings.Contains(string(logrotate), "--control") || socket("ExecStart") != usual || socket("ExecReload") != usual {
			t.Errorf("%s: the server is at %s, reload asks at %s, logrotate at %s", name, socket("ExecStart"), socket("ExecReload"), usual)
		}
	}
}

// A sandboxed is a server with the privileges of the unit.
type sandboxed struct {
	dir, addr string
	log       *sharedBuffer
}

// startSandboxed starts a server by running it with the command by, such as setpriv; end stops the
// server.
func startSandboxed(t *testing.T, by ...string) (s *sandboxed, end func()) {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	must.Succeed(t, os.Chmod(dir, 0o777))
	s = &sandboxed{dir: dir, addr: "127.0.0.1:" + port, log: new(sharedBuffer)}
	args := []string{"serve", dir, "--no-root-squash", "--ephemeral-key", "--tcp-port", port, "--rdma-port", freePort(t), "--rdma", "iwarp", "--rpcbind", "off", "--manage-gids"}
	by = append(by, os.Args[0], "-test.run=^TestServeChild$")
	cmd := exec.Command(by[0], by[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "\n"))
	cmd.Stderr = s.log
	cmd.WaitDelay = time.Minute
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	awaitPort(t, s.addr)
	return s, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}

// A sharedBuffer is written by one goroutine and read by another.
type sharedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *sharedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sharedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// mount mounts the server's tree for a user.
func (s *sandboxed) mount(t *testing.T, uid uint32) *nfsclient.FS {
	t.Helper()
	c, err := nfsclient.Dial(t.Context(), s.addr, nfsclient.Options{Transport: nfsclient.TCP, Cred: &transport.Cred{Flavor: oncrpc.FlavorSys, UID: uid, GID: uid}})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	tree, err := c.Mount(t.Context(), s.dir)
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	return tree
}

// works makes a client's calls, and returns those that fail.
func (s *sandboxed) works(t *testing.T) (failed []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	root, user := s.mount(t, 0), s.mount(t, 1000)
	try := func(what string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	owned := func(name string, uid, gid uint32, mode fs.FileMode) error {
		fi, err := os.Lstat(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		at := fi.Sys().(*syscall.Stat_t)
		if at.Uid != uid || at.Gid != gid || fi.Mode() != mode {
			return fmt.Errorf("uid %d, gid %d, %v", at.Uid, at.Gid, fi.Mode())
		}
		return nil
	}
	try("a user makes a file", user.WriteFile(ctx, "f", []byte("x"), 0o600))
	try("which is his", owned("f", 1000, 1000, 0o600))
	try("and a program with a set-user-ID bit", errors.Join(user.WriteFile(ctx, "p", nil, 0o755), user.Chmod(ctx, "p", 0o755|fs.ModeSetuid), owned("p", 1000, 1000, 0o755|fs.ModeSetuid)))
	try("and a FIFO", user.Mknod(ctx, "fifo", fs.ModeNamedPipe|0o600, 0, 0))
	try("and a directory", user.Mkdir(ctx, "d", 0o700))
	try("root writes where the mode does not let it", root.WriteFile(ctx, "d/f", []byte("x"), 0o600))
	try("root gives a file away", errors.Join(root.WriteFile(ctx, "g", nil, 0o644), root.Chown(ctx, "g", 1000, 1000), owned("g", 1000, 1000, 0o644)))
	try("root changes the mode of another's file", root.Chmod(ctx, "f", 0o640))
	try("and gives it a set-group-ID bit", errors.Join(root.Chmod(ctx, "f", 0o750|fs.ModeSetgid), owned("f", 1000, 1000, 0o750|fs.ModeSetgid)))
	_, err := user.ReadFile(ctx, "d/f")
	if !errors.Is(err, fs.ErrPermission) {
		try("root's file is not a user's to read", fmt.Errorf("%v", err))
	}
	if strings.Contains(s.log.String(), "does not open files by handle") {
		try("files are opened by handle", errors.New(s.log.String()))
	}
	return failed
}

// limited returns a command prefix that runs a program with the unit's capabilities except one.
func limited(t *testing.T, without string) []string {
	set := "-all"
	for _, c := range unitWords(t, "CapabilityBoundingSet") {
		if c != without {
			set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
		}
	}
	return []string{"setpriv", "--bounding-set=" + set, "--inh-caps=-all", "--no-new-privs"}
}

// TestCapabilities: with all capabilities of the unit the server works; without any one of them,
// some call fails.
func TestCapabilities(t *testing.T) {
	machine.NeedRoot(t, "runs services as the system does: needs root", "setpriv")
	for _, without := range append([]string{"nothing"}, unitWords(t, "CapabilityBoundingSet")...) {
		if without == "CAP_NET_BIND_SERVICE" {
			by := append(limited(t, without), os.Args[0], "-test.run=^TestServeChild$")
			cmd := exec.Command(by[0], by[1:]...)
			cmd.Env = append(os.Environ(), childEnv+"=serve\n--memory\n--rdma-port=0\n--rpcbind=off\n--tcp-port=997")
			if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "needs privileges") {
				t.Errorf("without %s: %s", without, out)
			}
			continue
		}
		s, end := startSandboxed(t, limited(t, without)...)
		failed := s.works(t)
		end()
		if (len(failed) > 0) != (without != "nothing") {
			t.Errorf("without %s: %v", without, failed)
		}
	}
}

// lateCall is strace's name for cachestat(2) before strace 6.5.
var lateCall = fmt.Sprintf("syscall_%#x", unix.SYS_CACHESTAT)

// TestSystemCalls: the server uses no system call or socket that the unit forbids, except those
// that give the same error without a capability.
func TestSystemCalls(t *testing.T) {
	machine.NeedRoot(t, "runs services as the system does: needs root", "setpriv", "strace", "systemd-analyze")
	allowed := map[string]bool{}
	for _, word := range unitWords(t, "SystemCallFilter") {
		allowCalls(t, allowed, word)
	}
	if !allowed["openat"] || !allowed["epoll_pwait"] || allowed["mount"] || allowed["ptrace"] {
		t.Fatalf("%d system calls are allowed, and not the right ones", len(allowed))
	}
	trace := filepath.Join(t.TempDir(), "trace")
	s, end := startSandboxed(t, append(limited(t, ""), "strace", "-D", "-f", "-qq", "-o", trace)...)
	for _, err := range s.works(t) {
		t.Error(err)
	}
	end()
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	families := unitWords(t, "RestrictAddressFamilies")
	seen := map[string]bool{}
	// strace prints a call's result on a separate line if another thread's call came between.
	for _, m := range regexp.MustCompile(`(?m)^\d+ +(?:<\.\.\. )?([a-z0-9_]+)(?:\(| resumed>)([A-Z_0-9]*).*`).FindAllSubmatch(text, -1) {
		call, first := string(m[1]), string(m[2])
		if call == lateCall {
			call = "cachestat"
		}
		resumed, unfinished := bytes.Contains(m[0], []byte(" resumed>")), bytes.HasSuffix(m[0], []byte("<unfinished ...>"))
		if !allowed[call] && !unfinished && !bytes.Contains(m[0], []byte("= -1 EPERM ")) {
			t.Errorf("the server calls %s, which the unit forbids: %s", call, m[0])
		}
		if call == "socket" && !resumed && !slices.Contains(families, first) {
			t.Errorf("the server makes a socket of %s, which the unit forbids", first)
		}
		seen[call] = true
	}
	if !seen["open_by_handle_at"] || !seen["setresuid"] {
		t.Errorf("of %d system calls seen none opens by handle, or none takes another user", len(seen))
	}
}

// allowCalls adds a system call to allowed, or all calls in a group and its subgroups.
func allowCalls(t *testing.T, allowed map[string]bool, word string) {
	t.Helper()
	if !strings.HasPrefix(word, "@") {
		allowed[word] = true
		return
	}
	out, err := exec.Command("systemd-analyze", "syscall-filter", word).Output()
	if err != nil {
		t.Fatalf("group %s: %v", word, err)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		if !strings.HasPrefix(line, " ") || name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		allowCalls(t, allowed, name)
	}
}
