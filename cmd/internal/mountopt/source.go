// The mount source: SERVER:/export or a URL, combined with the options.

package mountopt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A Source is the directory to mount.
type Source struct {
	// Targets are the addresses to try, in order; proto=auto has two.
	Targets []nfsclient.Target
	// Name is SERVER:/export, as shown in /proc/mounts.
	Name string
}

// Source parses the mount source and applies the options port and proto to it.
func (o *Options) Source(spec string) (Source, error) {
	t, err := nfsclient.ParseTarget(spec)
	if errors.Is(err, nfsclient.ErrNotRemote) {
		return Source{}, fmt.Errorf("%s: not an export: write SERVER:/export or nfsrdma://SERVER[:PORT]/export", spec)
	}
	if err != nil {
		return Source{}, err
	}
	if t.TransportSet && (o.Proto == RDMA || o.Proto == Auto) {
		return Source{}, fmt.Errorf("%s is over TCP, which contradicts option proto=%s", spec, o.Proto)
	}
	for _, one := range t.Servers() {
		switch {
		case one.Port != 0 && o.Port != 0 && one.Port != o.Port:
			return Source{}, fmt.Errorf("option port=%d and the port of %s contradict each other: give one port", o.Port, spec)
		case (one.Port != 0 || o.Port != 0) && o.Proto == Auto:
			return Source{}, fmt.Errorf("a port and option proto=auto contradict each other: RDMA and TCP have ports of their own")
		}
	}
	s := Source{Name: sourceName(t)}
	if o.Port != 0 {
		t = t.WithPort(o.Port)
	}
	switch o.Proto {
	case RDMA:
		t.Transport = nfsclient.RDMA
	case TCP:
		t.Transport = nfsclient.TCP
	case Auto:
		t.Transport = nfsclient.RDMA
		s.Targets = append(s.Targets, t)
		t.Transport = nfsclient.TCP
	}
	s.Targets = append(s.Targets, t)
	return s, nil
}

// sourceName returns SERVER:/export for a target in any form. Several servers are separated by
// commas, each with its port if one was given. The port of a single server is shown as an option.
func sourceName(t nfsclient.Target) string {
	hosts := strings.Split(t.Hosts(), ",")
	if len(hosts) > 1 {
		for i, one := range t.Servers() {
			if one.Port != 0 {
				hosts[i] = net.JoinHostPort(one.Host, strconv.Itoa(one.Port))
			}
		}
	}
	return strings.Join(hosts, ",") + ":" + path.Clean("/"+t.Path)
}

// String returns the option's value.
func (p Proto) String() string {
	return [...]string{"default", "rdma", "tcp", "auto"}[p]
}

// withOwner returns the credential for a user with the credential c, changed by the options uid and
// gid.
func (o *Options) withOwner(c transport.Cred) transport.Cred {
	if o.UID.Set && o.UID.Value != c.UID {
		c.UID, c.GIDs = o.UID.Value, nil // another user's groups are unknown
	}
	if o.GID.Set {
		c.GID = o.GID.Value
	}
	return c
}

// Client returns the options for connections to a target.
func (o *Options) Client(t nfsclient.Target) nfsclient.Options {
	c := nfsclient.Options{
		Transport: t.Transport, Conns: o.NConnect, MountHost: o.MountHost, MountPort: o.MountPort, LockPort: o.LockPort, Provider: o.Provider, CRC: o.CRC,
		BlockThreads: true, // programs wait for each call
		CallTimeout:  transport.Hard, RetryTimeout: o.Timeo, ReadSize: o.ReadSize, WriteSize: o.WriteSize,
	}
	if o.Recovery != Hard {
		c.CallTimeout = o.SoftTimeout()
	}
	if o.AnyPort {
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}
	if o.UID.Set || o.GID.Set {
		cred := o.withOwner(transport.SysCred())
		c.Cred = &cred
	}
	return c
}
