// Broken situations between two hosts. nfsrdma doctor advises the repair for each, and no repair
// already made.

package changing

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// The hosts in the matrix: the server has its own network.
const (
	serverAddr = "192.0.2.1"
	clientAddr = "192.0.2.2"
)

// twoHosts makes the server's network "srv", and a veth pair between it and this network.
func twoHosts(t *testing.T) {
	t.Helper()
	sh(t, "sh", "-euc", `ip netns add srv
ip link add way type veth peer name way netns srv
ip address add `+clientAddr+`/24 dev way
ip -n srv address add `+serverAddr+`/24 dev way
ip link set way gso_max_segs 1 up
ip -n srv link set way gso_max_segs 1 up
ip -n srv link set lo up`)
}

// inServer runs a line of shell in the server's network.
func inServer(t *testing.T, line string) {
	t.Helper()
	sh(t, "ip", "netns", "exec", "srv", "sh", "-euc", line)
}

// filter applies an nft rule to packets that come into the server's network, until the row ends.
func filter(t *testing.T, rule string) {
	t.Helper()
	inServer(t, `nft "add table inet row; add chain inet row in { type filter hook input priority 0; }; add rule inet row in `+rule+`"`)
	t.Cleanup(func() { inServer(t, "nft delete table inet row") })
}

const ports = "tcp dport { 111, 2049, 20049 } "

// rows are the matrix. Before each row a server starts with a directory exported to all; options
// are in its exports file.
var rows = []struct {
	name    string
	options string                               // of the exports file; "": rw,insecure,no_root_squash for all
	serve   []string                             // more server arguments; "-": no server runs
	broken  func(t *testing.T, dir string)       // nil: nothing more
	args    []string                             // of doctor, before the server
	as      string                               // user; "": root
	export  func(dir string) (host, path string) // nil: the directory at the server's address
	want    []string
	not     []string
}{
	{name: "all is well", args: []string{"--write"}, want: []string{"0 failed", "the clocks agree"}, not: []string{"FAIL"}},
	{name: "not running", serve: []string{"-"}, want: []string{"have the server serve RDMA there"}, not: []string{"let TCP port"}},
	{name: "dropped by a firewall", broken: func(t *testing.T, _ string) { filter(t, ports+"drop") },
		want: []string{"let TCP port 20049 through the firewalls"}, not: []string{"have the server serve"}},
	{name: "rejected by a firewall", broken: func(t *testing.T, _ string) { filter(t, ports+"reject with icmpx type admin-prohibited") },
		want: []string{"let TCP port 20049 through the firewalls"}, not: []string{"have the server serve"}},
	{name: "reset by a firewall", broken: func(t *testing.T, _ string) { filter(t, ports+"reject with tcp reset") },
		want: []string{"no firewall refuses the port"}, not: []string{"listens at this port does so on 127.0.0.1 alone"}},
	{name: "exported to others", options: "198.51.100.0/24(rw,insecure)",
		want: []string{"add this host, " + clientAddr + ", to 198.51.100.0/24"}, not: []string{"run as root", "is among the clients"}},
	{name: "exported to others, over TCP", options: "198.51.100.0/24(rw,insecure)", args: []string{"--proto", "tcp"},
		want: []string{"add this host, " + clientAddr + ", to 198.51.100.0/24"}, not: []string{"run as root", "is among the clients"}},
	{name: "secure, from any port", options: "*(rw,secure)", args: []string{"--proto", "tcp"}, as: "65534",
		want: []string{"run as root"}, not: []string{"add this host", "is among the clients"}},
	{name: "secure, from a reserved port", options: "*(rw,secure,no_root_squash)", args: []string{"--proto", "tcp"},
		want: []string{"0 failed"}, not: []string{"FAIL", "run as root"}},
	{name: "secure, over RDMA", options: "*(rw,secure)", as: "65534", want: []string{"0 failed"}, not: []string{"FAIL", "run as root"}},
	{name: "root is squashed", options: "*(rw,insecure,root_squash)", args: []string{"--write"},
		want: []string{"--no-root-squash"}, not: []string{"the export is read-only: rw"}},
	{name: "read-only", options: "*(ro,insecure,no_root_squash)", args: []string{"--write"},
		want: []string{"the export is read-only: rw in exports(5)"}, not: []string{"do not trust"}},
	{name: "on 127.0.0.1 alone", serve: []string{"--addr", "127.0.0.1"}, want: []string{"have it listen at " + serverAddr}, not: []string{"let TCP port"}},
	{name: "TCP alone", serve: []string{"--rdma-port", "0"}, want: []string{"have the server serve RDMA there", "nfsrdma mount -o proto=tcp " + serverAddr},
		not: []string{"let TCP port", "2049: refused"}},
	{name: "a path of smaller packets", broken: func(t *testing.T, _ string) { filter(t, "meta length > 900 drop") },
		want: []string{"packets of 840 bytes pass, and larger ones are lost", "mtu 840"}, not: []string{"let TCP port"}},
	{name: "a path of smaller packets, over TCP", broken: func(t *testing.T, _ string) { filter(t, "meta length > 900 drop") }, args: []string{"--proto", "tcp"},
		want: []string{"packets of 840 bytes pass, and larger ones are lost", "mtu 840"}, not: []string{"let TCP port"}},
	{name: "an interface of smaller packets", broken: func(t *testing.T, _ string) {
		sh(t, "ip", "link", "set", "way", "mtu", "900")
		t.Cleanup(func() { sh(t, "ip", "link", "set", "way", "mtu", "1500") })
	}, want: []string{"whose MTU is only 900", "0 failed"}, not: []string{"are lost"}},
	{name: "no such export", export: func(dir string) (string, string) { return serverAddr, dir + "/none/such" },
		want: []string{"no such directory is exported"}, not: []string{"add this host", "run as root"}},
	{name: "another export", export: func(string) (string, string) { return serverAddr, "/elsewhere" },
		want: []string{"it is not exported: the list begins with"}, not: []string{"add this host", "run as root"}},
	{name: "no such name", export: func(dir string) (string, string) { return "none.example", dir },
		want: []string{"none.example does not resolve", "or give the server's address"}, not: []string{"firewalls"}},
	{name: "no route", export: func(dir string) (string, string) { return "198.51.100.1", dir },
		want: []string{"check the addresses and routes of this machine"}, not: []string{"firewalls", "have the server serve"}},
	{name: "/dev/fuse is not allowed", broken: func(t *testing.T, _ string) {
		must.Succeed(t, unix.Mount("/dev/fuse", "/dev/fuse", "", unix.MS_BIND, ""), unix.Mount("", "/dev/fuse", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NODEV, ""))
		t.Cleanup(func() { _ = unix.Unmount("/dev/fuse", unix.MNT_DETACH) })
	}, want: []string{"give the container the device /dev/fuse"}, not: []string{"modprobe fuse", "FAIL"}},
	{name: "the disk is full", args: []string{"--write"}, broken: func(t *testing.T, dir string) {
		f, err := os.Create(filepath.Join(dir, "full"))
		must.Succeed(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		must.Succeed(t, f.Close())
	}, want: []string{"make room on the server"}, not: []string{"do not trust", "squash"}},
}

// TestDoctor: each broken situation gets the advice for its repair. It gets no advice already
// followed, or meant for another situation.
func TestDoctor(t *testing.T) {
	if !machine.Apart(t, "nft", "setpriv") {
		return
	}
	twoHosts(t)
	replace(t, "/etc/nsswitch.conf", "hosts: files\n")
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			sh(t, "mount", "-t", "tmpfs", "-o", "size=4m,mode=0755", "disk", dir)
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			if row.options == "" {
				row.options = "*(rw,insecure,no_root_squash)"
			}
			file := filepath.Join(t.TempDir(), "exports")
			must.Succeed(t, os.WriteFile(file, []byte(dir+" "+row.options+"\n"), 0o600))
			if len(row.serve) == 0 || row.serve[0] != "-" {
				start(t, `exec ip netns exec srv "$0" "$@";`, t.TempDir(), append([]string{"--exports", file, "--no-root-squash=false", "--trust-local=false",
					"--addr", serverAddr, "--tcp-port", "2049", "--rdma-port", "20049", "--rdma", "iwarp"}, row.serve...)...)
			}
			if row.broken != nil {
				row.broken(t, dir)
			}
			host, path := serverAddr, dir
			if row.export != nil {
				host, path = row.export(dir)
			}
			args := append(append([]string{client, "doctor"}, row.args...), host+":"+path)
			if row.as != "" {
				args = append([]string{"setpriv", "--reuid", row.as, "--regid", row.as, "--clear-groups"}, args...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			b, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
			out := string(b)
			if ctx.Err() != nil {
				t.Fatalf("doctor did not end: %v", err)
			}
			for _, part := range row.want {
				if !strings.Contains(out, part) {
					t.Errorf("no %q", part)
				}
			}
			for _, part := range row.not {
				if strings.Contains(out, part) {
					t.Errorf("wrong here: %q", part)
				}
			}
			if t.Failed() {
				t.Log(fmt.Sprintln(args) + out)
			}
		})
	}
}
