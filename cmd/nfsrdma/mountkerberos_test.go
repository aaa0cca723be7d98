// A mount with Kerberos, used by several users with tickets of their own.

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
)

// Users of a Kerberos mount. The server knows the principals of alice and bob.
const (
	alice  = 1001
	bob    = 1002
	nobody = 1003
)

// A kerberosMount is a mount of an export with Kerberos.
type kerberosMount struct {
	t         *testing.T
	r         *realm.Realm
	dir, temp string
	log       string
}

// mountWithKerberos mounts an export with the machine's key.
func mountWithKerberos(t *testing.T, sec string) *kerberosMount {
	t.Helper()
	machine.NeedRoot(t, "root, to mount for several users", "fusermount3")
	m := &kerberosMount{t: t, r: realm.New(t, realm.Options{Enctypes: []string{realm.AES128SHA2}})}
	// A directory of t.TempDir would be closed to other users.
	top, err := os.MkdirTemp("/tmp", "nfsrdma-kerberos-")
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	m.dir, m.temp, m.log = filepath.Join(top, "mnt"), filepath.Join(top, "tmp"), filepath.Join(top, "log")
	must.Succeed(t, os.Chmod(top, 0o755), os.Mkdir(m.dir, 0o755), os.Mkdir(m.temp, 0o755))
	for _, name := range []string{"alice", "bob"} {
		m.r.AddPrincipal(name, "secret")
	}
	for _, name := range []string{"nfs/localhost", "host/client.test"} {
		m.r.AddPrincipal(name, "")
	}
	users := map[string]uint32{"alice@EXAMPLE.TEST": alice, "bob@EXAMPLE.TEST": bob, "host/client.test@EXAMPLE.TEST": 0}
	acceptor, err := krb5.NewAcceptor(krb5.AcceptorOptions{Keytab: m.r.Keytab("nfs/localhost")})
	must.Succeed(t, err)
	known := gss.NewServer(gss.ServerConfig{Acceptor: acceptor, Map: func(principal string) (transport.Cred, bool) {
		uid, ok := users[principal]
		return transport.Cred{UID: uid, GID: uid}, ok
	}})
	_, tcp := secureServer(t, sec, "", transport.ServerConfig{Security: []transport.SecurityFlavor{known}})
	m.configure()
	nfs(t, "mount", "--log-file", m.log, "-o", "keytab="+m.r.Keytab("host/client.test"), tcp+"/mem", m.dir)
	const copied = 64  // other tests' mount namespaces have copies of the mount
	t.Cleanup(func() { // t.Context has ended by then
		if code := run(context.Background(), []string{"umount", m.dir}, strings.NewReader(""), io.Discard, os.Stderr); code != 0 && code != copied {
			t.Errorf("umount: got status %d, want 0 or %d", code, copied)
		}
	})
	// root on this machine acts as the server's root
	must.Succeed(t, os.Chmod(m.dir, 0o1777))
	return m
}

// configure writes a krb5.conf with the users' caches in the test's directory.
func (m *kerberosMount) configure() {
	m.t.Helper()
	text, err := os.ReadFile(m.r.Conf())
	must.Succeed(m.t, err)
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "default_ccache_name") {
			lines = append(lines, line)
		}
	}
	conf := strings.Replace(strings.Join(lines, ""), "[libdefaults]\n", "[libdefaults]\n\tdefault_ccache_name = FILE:"+m.temp+"/krb5cc_%{uid}\n", 1)
	name := filepath.Join(m.temp, "krb5.conf")
	must.Succeed(m.t, os.WriteFile(name, []byte(conf), 0o644))
	m.t.Setenv("KRB5_CONFIG", name)
	m.t.Setenv("KRB5CCNAME", "")
}

// kinit gets a user a ticket, and waits until the mount uses it, because the mount remembers a
// failure for a second.
func (m *kerberosMount) kinit(uid int, principal string, args ...string) {
	m.t.Helper()
	from := m.r.Kinit(principal, "secret", args...)
	must.Succeed(m.t, os.Chown(from, uid, uid), os.Rename(from, filepath.Join(m.temp, fmt.Sprint("krb5cc_", uid))))
	must.Become(m.t, "a usable ticket", func() bool {
		_, err := m.as(uint32(uid), "ls")
		return err == nil
	})
}

// as runs a shell script as a user in the mount.
func (m *kerberosMount) as(uid uint32, script string) (string, error) {
	cmd := exec.Command("bash", "-c", "cd "+m.dir+" && "+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// works checks that a script succeeds with output want; fails checks that it fails with a message
// that contains want.
func (m *kerberosMount) works(uid uint32, script, want string) {
	m.t.Helper()
	if out, err := m.as(uid, script); err != nil || out != want {
		m.t.Errorf("uid %d, %s: got %q, %v, want %q", uid, script, out, err, want)
	}
}

func (m *kerberosMount) fails(uid uint32, script, want string) {
	m.t.Helper()
	if out, err := m.as(uid, script); err == nil || !strings.Contains(out, want) {
		m.t.Errorf("uid %d, %s: got %q, %v, want a failure with %q", uid, script, out, err, want)
	}
}

// Each user has the rights of his own principal, also for files that were cached for others.
func TestMountWithKerberosOfSeveralUsers(t *testing.T) {
	m := mountWithKerberos(t, "krb5i")
	m.fails(alice, "ls", "Permission denied")
	m.kinit(alice, "alice")
	m.works(alice, "umask 077 && mkdir private && echo secret >private/file && umask 022 && echo open >public && cat private/file public", "secret\nopen")
	m.works(alice, "stat -c %u:%g:%a public private", "1001:1001:644\n1001:1001:700")
	m.fails(bob, "cat public", "Permission denied")
	m.fails(nobody, "cat public", "Permission denied")
	m.kinit(bob, "bob")
	m.works(bob, "cat public", "open")
	m.fails(bob, "cat private/file", "Permission denied")
	m.fails(bob, "echo x >>public", "Permission denied")
	m.works(bob, "echo of bob >his && stat -c %u:%g his", "1002:1002")
	m.fails(nobody, "cat public", "Permission denied")
	m.kinit(nobody, "bob") // rights follow the principal, not the local uid
	m.works(nobody, "echo as bob >>his && cat his", "of bob\nas bob")
	m.fails(nobody, "cat private/file", "Permission denied")

	lines, err := os.ReadFile(m.log)
	must.Succeed(t, err)
	for _, uid := range []int{alice, bob, nobody} {
		if n := strings.Count(string(lines), fmt.Sprintf("uid %d has no usable Kerberos ticket: run kinit", uid)); n != 1 {
			t.Errorf("log: %d lines about uid %d, want one:\n%s", n, uid, lines)
		}
	}
	if list := nfs(t, "mountstats", m.dir); !strings.Contains(list, "sec=krb5i") {
		t.Errorf("mountstats lacks sec=krb5i:\n%s", list)
	}
}

// A ticket ends in the middle of writing: the writer gets EKEYEXPIRED, others continue, and a new
// ticket is used without a new mount.
func TestTicketEndsWhileWriting(t *testing.T) {
	m := mountWithKerberos(t, "krb5p")
	m.kinit(bob, "bob")
	m.kinit(alice, "alice", "-l", "12s")
	end := time.Now().Add(time.Minute)
	out, err := m.as(alice, `echo 0 >file && n=1 && while echo $n >>file; do n=$((n+1)); sleep 0.05; done; echo ended at $n`)
	if err != nil || !strings.Contains(out, "Key has expired") && !strings.Contains(out, "Required key") {
		t.Errorf("writing until the ticket's end: got %q, %v", out, err)
	}
	if time.Now().After(end) {
		t.Errorf("writing went on for more than a minute with a ticket of 12 s")
	}
	written := out[strings.LastIndex(out, " ")+1:]
	m.fails(alice, "cat file", "Key has expired")
	m.works(bob, "echo of bob >his && cat his", "of bob")
	m.kinit(alice, "alice")
	var n int
	_, err = fmt.Sscan(written, &n)
	must.Succeed(t, err)
	m.works(alice, "echo end >>file && tail -n 2 file && wc -l <file", fmt.Sprintf("%d\nend\n%d", n-1, n+1))
	lines, err := os.ReadFile(m.log)
	must.Succeed(t, err)
	if !strings.Contains(string(lines), "the Kerberos tickets of uid 1001 have expired: run kinit") {
		t.Errorf("the log lacks the expired ticket:\n%s", lines)
	}
}
