// Our server, Linux's and nfs-ganesha side by side: the same exports, the same questions, and each
// server's answers.

package mount

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// sidesTree makes the exported directories in an empty one.
const sidesTree = `mkdir open open/sub ro squash all other private gone fixed comes
chmod 777 open squash all
echo text > open/file; echo text > open/secret; echo text > ro/secret; echo text > squash/secret; chmod 600 */secret`

// sidesRules are the rules in the grammar of exports(5): %[1]s is the base, %[2]s the client.
const sidesRules = `%[1]s/open %[2]s(rw,no_root_squash,insecure,no_subtree_check)
%[1]s/ro %[2]s(ro,no_root_squash,insecure,no_subtree_check)
%[1]s/squash %[2]s(rw,insecure,no_subtree_check)
%[1]s/all %[2]s(rw,all_squash,anonuid=2000,anongid=2000,insecure,no_subtree_check)
%[1]s/other 192.0.2.7(rw,insecure,no_subtree_check)
` + sidesCross

// sidesBefore and sidesAfter are the rules before and after the change.
const (
	sidesBefore = `%[1]s/gone %[2]s(rw,no_root_squash,insecure,no_subtree_check)
%[1]s/fixed %[2]s(rw,no_root_squash,insecure,no_subtree_check)
`
	sidesAfter = `%[1]s/comes %[2]s(rw,no_root_squash,insecure,no_subtree_check)
%[1]s/fixed %[2]s(ro,no_root_squash,insecure,no_subtree_check)
`
)

// A subject is a server that is asked.
type subject struct {
	name   string // its column in testdata/sides.txt
	also   string // another name, for the answers of this version alone
	peer          // how clients reach it; by is the command prefix inside its network
	port   string // of NFS
	mnt    string // of MOUNT
	base   string // the exports' directory, where it runs
	client string // our name at the server
	// applies other rules, mounts other file systems, and returns remarks about it
	change func() string
}

// ask asks a server all questions, and compares its answers with its known ones.
func (s *subject) ask(t *testing.T) {
	t.Helper()
	home := tempDir(t, "sides")
	ctx, cancel := context.WithTimeout(t.Context(), workerLimit)
	defer cancel()
	cmd := workerCmd(ctx, "sides", s.host+":"+s.port, s.mnt, s.base, home)
	if len(s.by) > 0 {
		cmd.Args = append(append(s.by[:len(s.by):len(s.by)], os.Args[0]), cmd.Args[1:]...)
		cmd.Path, cmd.Err = exec.LookPath(s.by[0])
	}
	ended := make(chan struct{})
	var out []byte
	var err error
	go func() {
		defer close(ended)
		out, err = cmd.CombinedOutput()
	}()
	for ready := false; !ready; {
		_, missing := os.Stat(filepath.Join(home, "ready"))
		select {
		case <-ended: // by itself, or with ctx
			t.Fatalf("%v\n%s", err, out)
		case <-time.After(20 * time.Millisecond):
			ready = missing == nil
		}
	}
	said := s.change()
	must.Succeed(t, os.WriteFile(filepath.Join(home, "changed"), nil, 0o644))
	<-ended
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := string(out) + said + s.showmount(t) + s.rpcinfo(t)
	answers = strings.ReplaceAll(strings.ReplaceAll(answers, s.base, "BASE"), s.client, "CLIENT")
	s.compare(t, answers)
}

// showmount returns the list from Debian's showmount.
func (s *subject) showmount(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, flag := range []string{"-e", "-a", "-d"} {
		line := append(s.by[:len(s.by):len(s.by)], "showmount", "--no-headers", flag, s.host)
		out, code := command(t, "", nil, line[0], line[1:]...)
		if code != 0 {
			out = fmt.Sprintf("status %d, %s", code, out)
		}
		if out == "" {
			out = "nothing"
		}
		words := strings.Split(out, "\n")
		for i := range words {
			words[i] = trimmed(words[i])
		}
		slices.Sort(words) // knfsd lists exports in no order
		fmt.Fprintf(&all, "showmount %s: %s\n", flag, strings.Join(words, "; "))
	}
	return all.String()
}

// rpcinfo returns the programs and versions known to rpcbind, by transport.
func (s *subject) rpcinfo(t *testing.T) string {
	t.Helper()
	line := append(s.by[:len(s.by):len(s.by)], "rpcinfo", "-p", s.host)
	out, code := command(t, "", nil, line[0], line[1:]...)
	if code != 0 {
		t.Errorf("rpcinfo: %s", out)
	}
	var known []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] != "program" {
			known = append(known, f[0]+" v"+f[1]+" "+f[2])
		}
	}
	slices.Sort(known)
	return "rpcinfo -p: " + strings.Join(slices.Compact(known), "; ") + "\n"
}

// compare compares answers with testdata/sides.txt, whose lines are a question, and below it for
// each server or several the answer.
func (s *subject) compare(t *testing.T, answers string) {
	t.Helper()
	known := sidesKnown(t, s.name)
	maps.Copy(known, sidesKnown(t, s.also))
	for line := range strings.Lines(answers) {
		question, answer, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if want, ok := known[question]; !ok || want != answer {
			t.Errorf("%s: %q, not %q", question, answer, want)
		}
		delete(known, question)
	}
	for question := range known {
		t.Errorf("%s: no answer", question)
	}
	if t.Failed() {
		t.Logf("all answers of %s:\n%s", s.name, answers)
	}
}

// sidesKnown returns a server's answers, by question.
func sidesKnown(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sides.txt"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	known := map[string]string{}
	question := ""
	for line := range strings.Lines(string(text)) {
		switch rest, indented := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case !indented:
			question = strings.TrimSpace(line)
		default:
			who, answer, _ := strings.Cut(strings.TrimSpace(rest), ": ")
			for _, w := range strings.Split(who, ", ") {
				if w == name {
					known[question] = answer
				}
			}
		}
	}
	return known
}

// A confined process runs in its own network, mount and process namespaces, and ends with the test.
type confined struct {
	cmd *exec.Cmd
	log string
}

// confine starts a shell command with arguments in such namespaces. The command must end in exec;
// ready is its output when it serves.
func confine(t *testing.T, text, ready string, args ...string) *confined {
	t.Helper()
	c := &confined{log: filepath.Join(tempDir(t, "confined"), "log")}
	all := append([]string{"-n", "-m", "-p", "--fork", "--kill-child", "sh", "-euc", leaveMounts + "mount -t tmpfs none /run; ip link set lo up; " + text, "sh"}, args...)
	c.cmd = exec.Command("unshare", all...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(c.log)
	if err != nil {
		t.Fatalf("os.Create: %v", err)
	}
	defer out.Close()
	c.cmd.Stdout, c.cmd.Stderr = out, out
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		select {
		case <-gone: // its number may be another process's
		default:
			killConfined(c.cmd)
		}
		<-gone
		if t.Failed() {
			t.Logf("what it wrote:\n%s", lastLines(c.logged(), 30))
		}
	})
	waitFor(t, ready, func() bool {
		select {
		case <-gone:
			t.Fatalf("ended at once:\n%s", lastLines(c.logged(), 30))
		default:
		}
		return strings.Contains(c.logged(), ready)
	})
	return c
}

// killConfined kills the processes that unshare has started, then unshare. Its --kill-child fails
// for programs that change their user: the kernel then clears their parent-death signal (prctl(2),
// PR_SET_PDEATHSIG).
func killConfined(unshare *exec.Cmd) {
	pid := strconv.Itoa(unshare.Process.Pid)
	text, _ := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	for _, child := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
	_ = unshare.Process.Kill()
}

func (c *confined) logged() string {
	b, _ := os.ReadFile(c.log)
	return string(b)
}

// by returns the command prefix for running a command in the process's network.
func (c *confined) by() []string {
	return []string{"nsenter", "--net=/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/ns/net"}
}

// remount runs remountScript inside its mount namespace.
func (c *confined) remount(t *testing.T, base, by string) string {
	t.Helper()
	out, code := command(t, "", nil, "nsenter", "--mount=/proc/"+strconv.Itoa(c.cmd.Process.Pid)+"/ns/mnt", "sh", "-c", remountScript(base, by))
	if code != 0 {
		t.Fatalf("status %d: %s", code, out)
	}
	return out + "\n"
}

// signal signals the process that was started last.
func (c *confined) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	pid := strconv.Itoa(c.cmd.Process.Pid)
	text, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("strconv.Atoi: %v", err)
	}
	must.Succeed(t, syscall.Kill(child, sig))
}

// needSides skips a test if mounts or programs for separate servers are missing. Otherwise it
// returns a directory with the exported directories.
func needSides(t *testing.T, programs ...string) (base string) {
	t.Helper()
	needMounts(t)
	need(t, append(programs, "unshare", "nsenter", "ip", "showmount", "rpcinfo")...)
	base = tempDir(t, "exports")
	script(t, base, sidesTree)
	return base
}

// TestSidesOurs asks our server.
func TestSidesOurs(t *testing.T) {
	base := needSides(t)
	file := filepath.Join(tempDir(t, "conf"), "exports")
	rules := func(text string) {
		must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, text, base, "127.0.0.1"), 0o644))
	}
	rules(sidesRules + sidesBefore)
	const says = " is in force: "
	c := confine(t, `base="$4"; `+sidesMounts+`; cd /; exec "$1" serve --exports "$2" --state-dir "$3" --rpcbind serve --rdma-port 0 --addr 127.0.0.1`,
		"mount from Linux:", filepath.Join(rig.bin, "nfsrdmad"), file, tempDir(t, "state"), base)
	s := &subject{name: "ours", peer: peer{host: "127.0.0.1", by: c.by()}, port: "2049", mnt: "2049", base: base, client: "127.0.0.1"}
	s.change = func() string {
		said := c.remount(t, base, nothingHelps)
		rules(sidesRules + sidesAfter)
		before := strings.Count(c.logged(), says)
		c.signal(t, syscall.SIGHUP)
		waitFor(t, "the new rules", func() bool { return strings.Count(c.logged(), says) > before })
		return said
	}
	s.ask(t)
}

// TestLinuxSides asks Linux's server, in guests.
func TestLinuxSides(t *testing.T) {
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { linuxSides(t, series) })
	}
}

func linuxSides(t *testing.T, series string) {
	img := linuxImage(t, series)
	need(t, "showmount", "rpcinfo")
	s, err := guest.BootServer(t.Context(), guest.Config{Image: img}, guest.Fixed)
	mustBoot(t, err)
	closing(t, s.Guest)
	if s.Device == "" {
		machine.Skip(t, "Linux's server sees no address of ours behind QEMU's user network")
	}
	run := func(text string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), workerLimit)
		defer cancel()
		out, err := s.Run(ctx, text)
		if err != nil {
			t.Fatalf("s.Run: %v", err)
		}
		return out
	}
	rules := func(text string) string {
		return "cat > /etc/exports << E\n" + fmt.Sprintf(text, "/sides", s.Host) + "E\nexportfs -ra\n"
	}
	watchClients(t, s.Guest)
	run("echo Y > /proc/fs/nfsd/v4_end_grace") // lockd's grace period goes on
	run(`modprobe ext4 && modprobe brd rd_nr=1 rd_size=24576 && /sbin/mke2fs -q -t ext4 -J size=2 /dev/ram0 || exit 1
mkdir /sides && mount -t ext4 -o acl /dev/ram0 /sides && cd /sides && rmdir lost+found || exit 1
` + sidesTree + "\nbase=/sides\n" + sidesMounts + "\n" + rules(sidesRules+sidesBefore))
	host, port := hostPort(t, s.TCP)
	_, mnt := hostPort(t, s.Mount)
	(&subject{name: "knfsd", also: "knfsd " + series, peer: peer{host: host}, port: port, mnt: mnt, base: "/sides", client: s.Host,
		change: func() string { return run(remountScript("/sides", "exportfs -f") + rules(sidesRules+sidesAfter)) }}).ask(t)
	for proto, address := range map[string]string{"rdma": s.RDMA, "tcp": s.TCP} {
		t.Run("acls-"+proto, func(t *testing.T) {
			host, port := hostPort(t, address)
			dir := mountAs(t, nil, host, fmt.Sprintf("proto=%s,port=%s,mountport=%s,nolock", proto, port, mnt), "/sides/open")
			aclsBothWays(t, dir, func(text string) string { return run("cd /sides/open\n" + text) })
		})
	}
}

// aclsBothWays sets ACLs through our mount that the server's own getfacl shows, and the reverse; it
// checks the rights that they give and refuse.
func aclsBothWays(t *testing.T, dir string, there func(string) string) {
	t.Helper()
	need(t, "getfacl", "setfacl")
	const show = "getfacl -pncE "
	same := func(name, want string) {
		t.Helper()
		for _, got := range []string{script(t, dir, show+name), there(show + name)} {
			if trimmed(got) != want {
				t.Errorf("%s has %q, not %q", name, trimmed(got), want)
			}
		}
	}
	as := func(uid uint32, text string) bool {
		_, code := command(t, dir, &syscall.Credential{Uid: uid, Gid: uid}, "sh", "-c", text)
		return code == 0
	}
	script(t, dir, "mkdir acls; chmod 755 acls; cd acls; umask 077; echo text > file; setfacl -m u:2000:rw file; mkdir sub; chmod 755 sub; setfacl -d -m u:2000:rwx,g::r-x,o::- sub")
	same("acls/file", "user::rw- user:2000:rw- group::--- mask::rw- other::---")
	same("acls/sub", "user::rwx group::r-x other::r-x default:user::rwx default:user:2000:rwx default:group::r-x default:mask::rwx default:other::---")
	if !as(2000, "cat acls/file && echo more >> acls/file") || as(1000, "cat acls/file") {
		t.Error("the file is not for user 2000, or for somebody else")
	}
	if as(2000, "setfacl -m u:1000:r acls/file") {
		t.Error("who is no owner has changed an ACL")
	}
	script(t, dir, "umask 077; echo text > acls/sub/file")
	same("acls/sub/file", "user::rw- user:2000:rwx group::r-x mask::rw- other::---")
	there("cd acls; echo text > theirs; chmod 600 theirs; setfacl -m u:1000:r theirs")
	waitFor(t, "a file of the server", func() bool { return as(1000, "cat acls/theirs") })
	same("acls/theirs", "user::rw- user:1000:r-- group::--- mask::r-- other::---")
	if as(2000, "cat acls/theirs") {
		t.Error("the server's file is for user 2000")
	}
	script(t, dir, "setfacl -b acls/theirs acls/file; setfacl -k acls/sub")
	same("acls/theirs", "user::rw- group::--- other::---")
	same("acls/sub", "user::rwx group::r-x other::r-x")
	script(t, dir, "rm -r acls")
}

// TestACLsOfOurs runs aclsBothWays with our server, on a directory of this machine.
func TestACLsOfOurs(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			dir := mountAs(t, nil, "127.0.0.1", s.options(proto), "/export")
			aclsBothWays(t, dir, func(text string) string { return script(t, s.dir, text) })
		})
	}
}
