// A RoCE server as a program, on networks that change: two hosts, and the path between them.

package program

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// sh runs lines of shell, and stops the test at the first that fails.
func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
}

// startRoCE runs the command serve with args in a network namespace, until the test ends or end is
// called. With in = "" it uses the test's own namespace.
func startRoCE(t *testing.T, in string, args ...string) (log *sharedBuffer, end func()) {
	t.Helper()
	command := []string{os.Args[0], "-test.run=^TestServeChild$"}
	if in != "" {
		command = append([]string{"ip", "netns", "exec", in}, command...)
	}
	cmd := exec.Command(command[0], command[1:]...)
	args = append([]string{"serve", "--ephemeral-key", "--no-root-squash", "--rpcbind", "off", "--locks", "off"}, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log = new(sharedBuffer)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Log(log)
		}
	})
	awaitText(t, log, "mount from Linux:")
	return log, end
}

// awaitText waits until a log contains a text.
func awaitText(t *testing.T, log *sharedBuffer, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(log.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log lacks %q", text)
		}
	}
}

// TestExportsOfThisHost: a line in the exports file for this host, by any name or address, admits
// clients on this host over RoCE as over TCP. The server then has the RoCE port of the client's own
// address. A line for other addresses does not admit them.
func TestExportsOfThisHost(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	sh(t, "ip link add pair0 type veth peer name pair1; ip addr add 10.91.7.1/24 dev pair0; ip link set pair0 up; ip link set pair1 up")
	dir := t.TempDir()
	want := []byte("data")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), want, 0o644))
	for _, c := range []struct {
		client, at string
		in         bool
	}{{"127.0.0.1", "127.0.0.1", true}, {"localhost", "127.0.0.1", true}, {"10.91.7.1", "10.91.7.1", true}, {"127.64.0.0/10", "127.0.0.1", false}} {
		file := filepath.Join(t.TempDir(), "exports")
		must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "%s %s(rw,insecure)\n", dir, c.client), 0o644))
		_, end := startRoCE(t, "", "--addr", "0.0.0.0", "--exports", file)
		for _, o := range []nfsclient.Options{{Transport: nfsclient.TCP}, {Provider: nfsclient.RoCE}} {
			k, err := nfsclient.Dial(t.Context(), c.at, o)
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			tree, err := k.Mount(t.Context(), dir)
			var got []byte
			if err == nil {
				got, err = tree.ReadFile(t.Context(), "f")
			}
			if in := err == nil && bytes.Equal(got, want); in != c.in {
				t.Errorf("export for %s, a client of this host at %s over %v %v: let in %v, want %v: %v", c.client, c.at, o.Transport, o.Provider, in, c.in, err)
			}
			k.Close()
		}
		end()
	}
}

// otherHost makes the network namespace "other". Its interface pair1 is connected to pair0 in the
// test's own namespace.
func otherHost(t *testing.T) {
	t.Helper()
	sh(t, `ip netns add other; ip link add pair0 type veth peer name pair1 netns other; ip -n other link set lo up
ip addr add 10.91.7.1/24 dev pair0; ip -n other addr add 10.91.7.2/24 dev pair1; ip link set pair0 up; ip -n other link set pair1 up`)
}

// readOver reads a file on a server over RoCE.
func readOver(t *testing.T, server, export, name string) []byte {
	t.Helper()
	data, err := mounted(t, server, export, nfsclient.Options{Provider: nfsclient.RoCE, CallTimeout: 5 * time.Minute}).ReadFile(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", server, err)
	}
	return data
}

// content makes a directory that contains a file f with n bytes, and returns the directory and the
// bytes.
func content(t *testing.T, n int) (dir string, data []byte) {
	t.Helper()
	dir, data = t.TempDir(), make([]byte, n)
	for i := range data {
		data[i] = byte(i * (i>>8 + 1))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), data, 0o644))
	return dir, data
}

// TestRoCELinkLocal: over RoCE, link-local addresses in IPv4 and IPv6 reach a server that listens
// on all addresses, or on one address with a zone.
func TestRoCELinkLocal(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	otherHost(t)
	sh(t, `ip addr add 169.254.10.1/16 dev pair0; ip -n other addr add 169.254.10.2/16 dev pair1
ip addr add fe80::7:1/64 dev pair0 nodad; ip -n other addr add fe80::7:2/64 dev pair1 nodad`)
	dir, want := content(t, 300_000)
	for _, c := range []struct{ addr, at string }{{"::", "169.254.10.2"}, {"::", "[fe80::7:2%pair0]:20049"}, {"fe80::7:2%pair1", "[fe80::7:2%pair0]:20049"}} {
		_, end := startRoCE(t, "other", "--addr", c.addr, dir+"=/e")
		if got := readOver(t, c.at, "/e", "f"); !bytes.Equal(got, want) {
			t.Errorf("server at %s, by %s: %d bytes, want %d of the file", c.addr, c.at, len(got), len(want))
		}
		end()
	}
}

// TestRoCEPartlyServed: if another program has the RoCE port on one address, the server logs this
// once, and serves that address when the port is free.
func TestRoCEPartlyServed(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	otherHost(t)
	// An address on an interface whose link is down stays tentative.
	sh(t, `ip addr add 192.0.2.2/32 dev lo; ip link add down0 type veth peer name down1; ip link set down0 up; ip addr add fd91:8::1/64 dev down0`)
	taken, err := net.ListenPacket("udp4", "192.0.2.2:4791")
	if err != nil {
		t.Fatalf("net.ListenPacket: %v", err)
	}
	defer taken.Close()
	dir, want := content(t, 3)
	log, _ := startRoCE(t, "", "--addr", "::", dir+"=/e")
	awaitText(t, log, "not served over RoCE at 192.0.2.2: ")
	taken.Close()
	awaitText(t, log, "served over RoCE at 192.0.2.2, too")
	if n := strings.Count(log.String(), "not served over RoCE"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	if n := strings.Count(log.String(), ", too"); n != 1 {
		t.Errorf("%d addresses are logged as served at last, want 1", n)
	}
	if got := readOver(t, "192.0.2.2", "/e", "f"); !bytes.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
}

// jumbo lets the interfaces of both hosts carry long packets. It turns off segmentation offload, so
// each packet is sent alone.
const jumbo = `ip link set pair0 mtu 9000 gso_max_segs 1; ip -n other link set pair1 mtu 9000 gso_max_segs 1
`

// reads reads a file with n bytes over RoCE, applies change to the network, and reads another file
// over the same mount.
func reads(t *testing.T, server, change string) (log *sharedBuffer) {
	t.Helper()
	dir, want := content(t, 3_000_000)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "g"), want, 0o644))
	log, end := startRoCE(t, "other", "--addr", "0.0.0.0", dir+"=/e")
	defer end()
	tree := mounted(t, server, "/e", nfsclient.Options{Provider: nfsclient.RoCE, CallTimeout: 5 * time.Minute})
	for _, name := range []string{"f", "g"} {
		got, err := tree.ReadFile(t.Context(), name)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: read %d bytes, want %d of the file: %v", name, len(got), len(want), err)
		}
		if err := tree.WriteFile(t.Context(), "new-"+name, want, 0o644); err != nil {
			t.Fatalf("writing: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "new-"+name)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("wrote %d bytes, want %d of the file: %v", len(got), len(want), err)
		}
		if name == "f" {
			sh(t, change)
		}
	}
	return log
}

// lostForLength is part of the server's message about a connection that loses long packets although
// no router reports this.
const lostForLength = "and short ones are not"

// TestRoCEInterfaceMadeSmaller: a mount over RoCE continues when jumbo frames are turned off at one
// end or both.
func TestRoCEInterfaceMadeSmaller(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	otherHost(t)
	for _, change := range []string{"ip link set pair0 mtu 1500; ip -n other link set pair1 mtu 1500", "ip link set pair0 mtu 1500", "ip -n other link set pair1 mtu 1500"} {
		sh(t, jumbo)
		if log := reads(t, "10.91.7.2", change).String(); change != "ip link set pair0 mtu 1500" && strings.Contains(log, lostForLength) {
			t.Errorf("%s: packets were lost, though the server's kernel has the new MTU: %s", change, log)
		}
	}
}

// TestRoCEBlackHole: a mount over RoCE continues when the network silently drops long packets in
// either direction, even packets with 1,000 bytes.
func TestRoCEBlackHole(t *testing.T) {
	if !machine.Apart(t, "nft") {
		return
	}
	otherHost(t)
	const drops = `nft -f - <<END
table ip hole {
	chain out { type filter hook output priority 0; udp dport 4791 ip length > %d drop; }
	chain in { type filter hook input priority 0; udp dport 4791 ip length > %d drop; }
}
END`
	for _, most := range [][2]int{{1500, 65535}, {65535, 1500}, {1000, 1000}} {
		sh(t, jumbo)
		reads(t, "10.91.7.2", fmt.Sprintf(drops, most[0], most[1]))
		sh(t, "nft delete table ip hole")
	}
}

// TestRoCESmallerPath: two hosts with jumbo frames have a link of 1,500 bytes between their
// routers, and the routers report its limit.
func TestRoCESmallerPath(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	sh(t, `for n in other r s; do ip netns add $n; ip -n $n link set lo up; done
ip link add pair0 type veth peer name ra netns r; ip -n r link add rs type veth peer name sr netns s; ip -n other link add pair1 type veth peer name sb netns s
ip addr add 10.77.1.2/24 dev pair0; ip -n r addr add 10.77.1.1/24 dev ra; ip -n r addr add 10.77.3.1/24 dev rs; ip -n s addr add 10.77.3.2/24 dev sr
ip -n other addr add 10.77.2.2/24 dev pair1; ip -n s addr add 10.77.2.1/24 dev sb
for x in "r ra" "r rs" "s sr" "s sb"; do set -- $x; ip -n $1 link set $2 mtu 9000 gso_max_segs 1 up; done
ip link set pair0 up; ip -n other link set pair1 up
`+jumbo+`ip route add default via 10.77.1.1; ip -n other route add default via 10.77.2.1
ip -n r route add default via 10.77.3.2; ip -n s route add default via 10.77.3.1
for n in r s; do ip netns exec $n sysctl -qw net.ipv4.ip_forward=1; done`)
	log := reads(t, "10.77.2.2", "ip -n r link set rs mtu 1500; ip -n s link set sr mtu 1500")
	if strings.Contains(log.String(), lostForLength) {
		t.Errorf("packets were lost, though the routers have reported the path MTU: %s", log)
	}
}
