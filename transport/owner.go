// The owner of a connection's other end on the same machine.

package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"golang.org/x/sys/unix"
)

// An OwnerKind is the kind of information about a peer socket's owner.
type OwnerKind uint8

const (
	// OwnerUnknown is a peer on this machine without a known socket owner: its process has closed
	// the socket, or the kernel has no inet_diag. OwnerUnknown is also a peer that the kernel can
	// place neither on this machine nor elsewhere.
	OwnerUnknown OwnerKind = iota
	// OwnerLocal is a peer on this machine with a socket owned by Owner.UID.
	OwnerLocal
	// OwnerRemote is a peer on another machine, or in another network namespace, unknown to this
	// machine's kernel.
	OwnerRemote
)

// An Owner is the owner of a connection's peer socket, according to this machine's kernel when the
// connection was accepted. The owner is the user that created the socket, even if the process later
// changes its user or passes the socket to another process.
type Owner struct {
	Kind OwnerKind
	UID  uint32 // for OwnerLocal, in the server's own user namespace
}

func (o Owner) String() string {
	switch o.Kind {
	case OwnerLocal:
		return fmt.Sprintf("uid %d of this machine", o.UID)
	case OwnerRemote:
		return "another machine"
	}
	return "somebody whom the kernel does not name"
}

var errOwnerWait = errors.New("rpc: the kernel did not say in time whose socket the peer has")

// owners looks up the owners of a Server's connections, one at a time, so that a stuck kernel
// blocks one goroutine and not one for each connection.
type owners struct {
	ask    func(local, remote netip.AddrPort) Owner // for a TCP connection
	askUDP func(local, remote netip.AddrPort) Owner // for a socket bound to remote
	turn   chan struct{}                            // has an element during a lookup
	wait   time.Duration                            // ownerWait
	start  sync.Once
	diag   sockDiag // used by the holder of turn, and by open
}

// open must precede the first accepted connection.
func (o *owners) open() { o.start.Do(o.diag.open) }

func (o *owners) init(ask func(local, remote netip.AddrPort) Owner) {
	o.turn, o.wait = make(chan struct{}, 1), ownerWait
	if o.ask, o.askUDP = ask, ask; ask == nil {
		o.ask, o.askUDP = o.diag.owner, o.diag.ownerUDP
	}
}

// ofRequest returns the owner of a connection request's other end, or errOwnerWait.
func (o *owners) ofRequest(req rnic.ConnRequest) (Owner, error) {
	if d, ok := req.(rnic.DatagramRequest); ok {
		local, remote := d.Sockets()
		return o.bounded(o.askUDP, local, remote)
	}
	return o.of(req.NetConn())
}

// of returns the owner of c's other end, or errOwnerWait.
func (o *owners) of(c net.Conn) (Owner, error) {
	local, lok := c.LocalAddr().(*net.TCPAddr)
	remote, rok := c.RemoteAddr().(*net.TCPAddr)
	if !lok || !rok {
		if a := c.RemoteAddr(); a != nil && a.Network() == "unix" {
			return Owner{}, nil
		}
		// c is not from package net: the program that made it decides which peers it admits.
		return Owner{Kind: OwnerRemote}, nil
	}
	owner, err := o.within(local.AddrPort(), remote.AddrPort())
	// After a reset the ports are free for another connection, and the kernel may have named the
	// new connection's owner. So the unread bytes of c get no owner.
	if owner.Kind == OwnerLocal && ended(c) {
		owner = Owner{}
	}
	return owner, err
}

// ended reports whether the kernel has ended the connection.
func ended(c net.Conn) bool {
	if t, ok := c.(*tlsConn); ok {
		c = t.raw
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		over = err != nil || info.State == tcpClose
	})
	return err != nil || over
}

// within does one lookup for a TCP connection.
func (o *owners) within(local, remote netip.AddrPort) (Owner, error) {
	return o.bounded(o.ask, local, remote)
}

func (o *owners) bounded(ask func(local, remote netip.AddrPort) Owner, local, remote netip.AddrPort) (Owner, error) {
	timer := time.NewTimer(o.wait)
	defer timer.Stop()
	select {
	case o.turn <- struct{}{}:
	case <-timer.C:
		return Owner{}, errOwnerWait
	}
	answer := make(chan Owner, 1)
	go func() {
		defer func() { <-o.turn }()
		answer <- ask(local, remote)
	}()
	select {
	case owner := <-answer:
		return owner, nil
	case <-timer.C:
		return Owner{}, errOwnerWait
	}
}

// close releases the netlink sockets, unless a lookup is still stuck after the wait.
func (o *owners) close() {
	timer := time.NewTimer(o.wait)
	defer timer.Stop()
	select {
	case o.turn <- struct{}{}:
		o.diag.close()
		<-o.turn
	case <-timer.C:
	}
}
