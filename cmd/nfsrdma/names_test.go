// Flag names: each means the same in all commands, exists only where it has a meaning, and works
// under its old spelling.

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestOldNamesOfFlags: an old name works, is hidden in the help, and causes one warning with the
// new name.
func TestOldNamesOfFlags(t *testing.T) {
	rdma, tcp := serve(t)
	for _, c := range []struct{ args, url, old, name string }{
		{"--transport tcp", strings.Replace(tcp, "nfs://", "nfsrdma://", 1), "transport", "proto"},
		{"--provider iwarp", rdma, "provider", "rdma"},
		{"--conns=2", rdma, "conns", "nconnect"},
	} {
		args := slices.Concat([]string{"ls"}, strings.Fields(c.args), []string{c.url + "/mem"})
		out, errOut, code := try(t, args...)
		if code != 0 || out != "" {
			t.Errorf("%v: status %d, output %q", args, code, out)
		}
		if want := "nfsrdma: warning: --" + c.old + " is now called --" + c.name + "\n"; errOut != want {
			t.Errorf("%v: warned %q, want %q", args, errOut, want)
		}
		help := nfs(t, "ls", "--help")
		if strings.Contains(help, "--"+c.old+" ") || !strings.Contains(help, "--"+c.name+" ") {
			t.Errorf("help has --%s, or lacks --%s", c.old, c.name)
		}
		if _, errOut, _ = try(t, args[0], "--"+c.old+"=x", c.url); !strings.Contains(errOut, "is now called --"+c.name) {
			t.Errorf("--%s=x: %q, which lacks the new name", c.old, errOut)
		}
	}
}

// TestCountFlags: in every command, --count sets the number of repetitions. Its old name in verbs
// works, is hidden in the help, and causes one warning.
func TestCountFlags(t *testing.T) {
	for _, command := range []string{"ping", "top", "verbs pingpong", "verbs perf", "verbs rping", "verbs ucmatose", "verbs udaddy", "verbs mckey"} {
		help := nfs(t, append(strings.Fields(command), "--help")...)
		if !strings.Contains(help, "--count N") || strings.Contains(help, "--iters") {
			t.Errorf("%s --help lacks --count, or has --iters:\n%s", command, help)
		}
	}
	_, errOut, code := try(t, "verbs", "pingpong", "--iters", "-1", "h")
	want := "nfsrdma: warning: --iters is now called --count\nnfsrdma: --count -1: 1 to "
	if code != 1 || !strings.HasPrefix(errOut, want) {
		t.Errorf("verbs pingpong --iters -1: status %d, %q, want %q", code, errOut, want)
	}
}

// TestConnectionFlagsStandWhereTheyMeanSomething: commands that connect accept these flags before
// and after the command's name; other commands do not.
func TestConnectionFlagsStandWhereTheyMeanSomething(t *testing.T) {
	root := newRoot(&session.Session{})
	for command, want := range map[string]bool{"ls": true, "cp": true, "ping": true, "doctor": true, "bench": true, "showmount": true,
		"mount": false, "umount": false, "mountstats": false, "top": false, "demo": false, "man": false} {
		cmd, _, err := root.Find([]string{command})
		if err != nil {
			t.Fatalf("Find: %v", err)
		}
		f := cmd.Flags().Lookup("proto")
		if shown := f != nil && !f.Hidden; shown != want {
			t.Errorf("%s shows --proto: %v, want %v", command, shown, want)
		}
	}
	_, tcp := serve(t)
	url := strings.Replace(tcp, "nfs://", "nfsrdma://", 1) + "/mem"
	for _, args := range [][]string{{"--proto", "tcp", "ls", url}, {"--proto=tcp", "ls", url}, {"ls", url, "--proto", "tcp"}} {
		if _, errOut, code := try(t, args...); code != 0 || errOut != "" {
			t.Errorf("%v: status %d, %s", args, code, errOut)
		}
	}
	if _, errOut, code := try(t, "umount", "--proto", "tcp", t.TempDir()); code != 1 || !strings.Contains(errOut, "unknown flag: --proto") {
		t.Errorf("umount --proto: status %d, %s", code, errOut)
	}
}

// TestProtoAuto: without RDMA the server is reached over TCP. Contradictions of --proto auto are
// errors.
func TestProtoAuto(t *testing.T) {
	if !machine.Apart(t) { // needs the usual ports
		return
	}
	addr := machine.Addr(t).String()
	serveAt(t, addr, func(rpc *transport.Server) {
		l, err := transport.Listen(addr + ":2049")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		go rpc.ServeTCP(l)
	})
	if out := nfs(t, "ping", "-c", "1", "--rdma", "iwarp", "--proto", "auto", addr); !strings.Contains(out, "over tcp") {
		t.Errorf("%s", out)
	}
	for arg, want := range map[string]string{
		"nfs://h":       "is over TCP: leave --proto auto out",
		"nfsrdma://h:9": "has a port",
		"h:9":           "has a port",
	} {
		if _, errOut, code := try(t, "ping", "--proto", "auto", arg); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: status %d, %q, want %q", arg, code, errOut, want)
		}
	}
}

// TestServerOfRoCEAlone: a server without iWARP is found with no flag that names RoCE.
func TestServerOfRoCEAlone(t *testing.T) {
	if !machine.Apart(t) { // needs the usual ports
		return
	}
	addr, dev := machine.Addr(t).String(), roce.Open(rnic.DeviceConfig{})
	serveAt(t, addr, func(rpc *transport.Server) {
		l, err := dev.Listen("udp", addr+":20049")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		go rpc.ServeRDMA(dev, l)
	})
	if out := nfs(t, "ls", "-d", "--connect-timeout", "5m", addr+":/mem"); !strings.Contains(out, addr) {
		t.Errorf("%s", out)
	}
}

// serveAt exports memory as /mem through the listeners that listen adds.
func serveAt(t *testing.T, addr string, listen func(*transport.Server)) {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, Exports: []nfsserver.Export{{Name: "/mem", FS: memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	t.Cleanup(func() {
		rpc.Shutdown(context.Background())
		srv.Close()
	})
	listen(rpc)
}

// TestFlagsOfMount8: mount accepts the flags of mount(8) that it can obey, showmount -e means
// showmount, and -v does not print the version.
func TestFlagsOfMount8(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for args, want := range map[string]string{
		"mount -t nfsrdma -r -v h:/x " + dir: "no such directory",
		"mount -t ext4 h:/x " + dir:          "-t ext4: must be nfsrdma",
		"mount -w -o soft,hard h:/x " + dir:  "options soft and hard contradict",
		"mount -o ro":                        "no SERVER:/export and DIR",
		"-v":                                 "unknown shorthand flag: 'v'",
	} {
		if _, errOut, code := try(t, strings.Fields(args)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: status %d, %q, want %q", args, code, errOut, want)
		}
	}
	if out := nfs(t, "mount", "-o", "help"); !strings.Contains(out, "    nconnect=N ") {
		t.Errorf("mount -o help: %s", out)
	}
	_, tcp := serve(t)
	if with, without := nfs(t, "showmount", "-e", tcp), nfs(t, "showmount", tcp); with != without || !strings.Contains(with, "/mem") {
		t.Errorf("showmount -e: %q, want %q", with, without)
	}
}
