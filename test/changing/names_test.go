// Users, groups and names of hosts that change under a server.

package changing

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// awaitLater waits for a condition. Meanwhile the server's monotonic clock advances, so that
// entries kept for a minute expire.
func (s *server) awaitLater(what string, holds func() bool) {
	s.Helper()
	s.await(what, func() bool {
		s.passed += 2 * time.Minute
		s.clk.set(s.T, 0, s.passed)
		return holds()
	})
}

// TestUsersChange: users and groups that are made and removed under a server of --manage-gids have
// effect after a minute.
func TestUsersChange(t *testing.T) {
	if !machine.Apart(t, "getent") {
		return
	}
	const passwd, user = "root:x:0:0:root:/root:/bin/sh\n", "user:x:54321:54321::/:/bin/sh\n"
	const group, without, with = "root:x:0:\n", "user:x:54321:\nmore:x:54322:\n", "user:x:54321:\nmore:x:54322:user\n"
	replace(t, "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
	replace(t, "/etc/passwd", passwd)
	replace(t, "/etc/group", group)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(file, []byte("x"), 0o640), os.Chown(file, 0, 54322), os.Chmod(dir, 0o755))
	s := start(t, "", t.TempDir(), "--manage-gids", dir)
	tree, err := s.mount(dir)
	must.Succeed(t, err)
	n, err := s.client.Lookup(t.Context(), tree.Root(), "f")
	must.Succeed(t, err)
	as := s.client.As(transport.Cred{Flavor: oncrpc.FlavorSys, UID: 54321, GID: 54321, GIDs: []uint32{54322}})
	reads := func() bool {
		_, _, err := as.Read(context.Background(), n.FH, make([]byte, 1), 0)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(err)
		}
		return err == nil
	}
	if reads() {
		t.Error("a user that does not exist on the machine has a group that it claims")
	}
	for _, step := range []struct {
		name, passwd, group string
		reads               bool
	}{
		{"user", passwd + user, group + with, true},
		{"user who has left the group", passwd + user, group + without, false},
		{"user who has the group again", passwd + user, group + with, true},
		{"user who was removed", passwd, group + with, false},
	} {
		must.Succeed(t, os.WriteFile("/etc/passwd", []byte(step.passwd), 0o644), os.WriteFile("/etc/group", []byte(step.group), 0o644))
		s.awaitLater("effect of a "+step.name, func() bool { return reads() == step.reads })
	}
}

// nameServer serves DNS queries for name at the UDP address at, until stop is called.
func nameServer(t *testing.T, at, name string, addr [4]byte) (stop func()) {
	t.Helper()
	c, err := net.ListenPacket("udp", at)
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	var question []byte
	for label := range strings.SplitSeq(name, ".") {
		question = append(append(question, byte(len(label))), label...)
	}
	question = append(question, 0)
	go func() {
		for b := make([]byte, 512); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			const header, fixed = 12, 4 // type and class
			end := header + len(question) + fixed
			known := n >= end && strings.EqualFold(string(b[header:end-fixed]), string(question))
			if n < header+fixed || !known {
				end = header
			}
			m := append([]byte{b[0], b[1], 0x81, 0x80, 0, 0, 0, 0, 0, 0, 0, 0}, b[header:end]...)
			switch {
			case !known:
				m[3] |= 3 // RCODE 3: no such name
			case binary.BigEndian.Uint16(b[end-fixed:]) == 1:
				m[7] = 1
				m = append(m, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4)
				m = append(m, addr[:]...)
				fallthrough
			default:
				m[5] = 1
			}
			_, _ = c.WriteTo(m, from)
		}
	}()
	return func() { c.Close() }
}

// TestNamesChange: a client in an exports line has the current address for its name, from
// /etc/hosts or from the servers in /etc/resolv.conf. While no server answers, the last address
// holds for ten minutes.
func TestNamesChange(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	const name = "client.example"
	replace(t, "/etc/nsswitch.conf", "hosts: files dns\n")
	replace(t, "/etc/hosts", string(hosts("127.0.0.77", name)))
	// no server listens there, so queries are refused
	replace(t, "/etc/resolv.conf", "nameserver 127.0.0.52\noptions timeout:1 attempts:1\n")
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	file := filepath.Join(t.TempDir(), "exports")
	must.Succeed(t, os.WriteFile(file, []byte(dir+" "+name+"(rw,insecure)\n"), 0o600))
	s := start(t, "", t.TempDir(), "--exports", file)
	if s.has(dir, "f") {
		t.Error("a client at another address than the one of its name is let in")
	}
	in, out := func() bool { return s.has(dir, "f") }, func() bool { return !s.has(dir, "f") }
	must.Succeed(t, os.WriteFile("/etc/hosts", hosts("127.0.0.1", name), 0o644))
	s.awaitLater("client that /etc/hosts has now", in)
	must.Succeed(t, os.WriteFile("/etc/hosts", hosts("127.0.0.77", name), 0o644))
	s.awaitLater("end of a client that has moved", out)

	stop := nameServer(t, "127.0.0.53:53", name, [4]byte{127, 0, 0, 1})
	must.Succeed(t, os.WriteFile("/etc/hosts", hosts("127.0.0.1", "other"), 0o644),
		os.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.53\n"), 0o644))
	s.awaitLater("client that a name server has", in)
	stop()
	for range 3 {
		s.passed += 2 * time.Minute
		s.clk.set(t, 0, s.passed)
		if !in() {
			t.Error("a client is shut out as soon as no name server answers")
		}
	}
	s.awaitLater("end of a client without a name on any server", out)
}
