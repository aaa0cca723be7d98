// The veth group: the same measurements between two network namespaces, with real network segments.

package main

import (
	"bufio"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// Addresses of the pair: the servers' and the clients' end.
const (
	vethServer = "10.91.0.1"
	vethClient = "10.91.0.2"
)

func (b *bed) measureVeth(ctx context.Context) error {
	if !isolated() {
		return errors.New("a pair of network namespaces needs root")
	}
	enter, err := b.pair()
	if err != nil {
		return err
	}
	peer, stop, err := b.rawPeer(vethServer)
	if err != nil {
		return err
	}
	defer stop()
	for _, mtu := range []string{"1500", "9000"} {
		if err := command("ip", "link", "set", "bench0", "mtu", mtu); err != nil {
			return err
		}
		if err := command(enter[0], append(enter[1:], "ip", "link", "set", "bench1", "mtu", mtu)...); err != nil {
			return err
		}
		j := job{tests: "read,write,getattr,null", depth: 8, raw: true, prefix: enter, host: vethServer, peer: peer}
		if err := b.each(func() error { return b.round(ctx, "veth"+mtu, j, rdma, rdmaOff, tcp) }); err != nil {
			return err
		}
	}
	return nil
}

// pair makes a pair of interfaces, once, and returns the command prefix that runs a command at the
// clients' end.
func (b *bed) pair() (enter []string, err error) {
	if b.enter != nil {
		return b.enter, nil
	}
	// A sleeping process keeps the clients' namespace.
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := b.start(holder); err != nil {
		return nil, err
	}
	pid := strconv.Itoa(holder.Process.Pid)
	enter = []string{"nsenter", "-t", pid, "-n"}
	inside := strings.Join(enter, " ") + " "
	err = commands("ip link add bench0 type veth peer name bench1 netns "+pid,
		"ip addr add "+vethServer+"/24 dev bench0", "ip link set bench0 up",
		inside+"ip addr add "+vethClient+"/24 dev bench1", inside+"ip link set bench1 up")
	if err == nil {
		b.enter = enter
	}
	return enter, err
}

// rawPeer starts raw TCP's other end at the servers' end, on a host address.
func (b *bed) rawPeer(host string) (addr string, stop func(), err error) {
	_, out, end, err := machine.Start(b.serverCommand(filepath.Join(b.base, "nfsrdma"), "_rawtcp", "--listen", host+":0"))
	if err != nil {
		return "", nil, err
	}
	stop = func() { _ = end() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(line), stop, nil
}
