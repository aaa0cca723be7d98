// What serve tells when it is ready.

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/sirupsen/logrus"
)

// printServed tells what is served, where, and how to mount it.
func printServed(w io.Writer, o *options, names []string, s *nfsserver.Service) {
	how := "read-write"
	if o.readOnly {
		how = "read-only"
	}
	for _, name := range names {
		fmt.Fprintf(w, "serving %s (%s)\n", name, how)
	}
	if s.RDMAAddr != nil {
		fmt.Fprintf(w, "  RDMA: %s (iWARP, CRC %s), NFS and MOUNT\n", s.RDMAAddr, o.crc)
	}
	if s.TCPAddr != nil {
		fmt.Fprintf(w, "  TCP:  %s, NFS and MOUNT\n", s.TCPAddr)
	}
	if o.metrics != "" {
		fmt.Fprintf(w, "  figures for Prometheus: http://%s/metrics\n", o.metrics)
	}
	who := squash(o)
	fmt.Fprintf(w, "  %s\n", o.trust.line(&who, s))
	if warning := o.trust.warning(&who, s); warning != "" {
		logrus.Warn(warning)
	}
	fmt.Fprintln(w, "mount, with nothing but the client binary:")
	for _, name := range names {
		fmt.Fprintf(w, "  %s\n", clientLine(name, s))
	}
	fmt.Fprintln(w, "mount from Linux:")
	for _, name := range names {
		for _, line := range mountLines(name, s) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
}

// clientLine is the command that mounts an export by our own client: over RDMA if it is served.
func clientLine(name string, s *nfsserver.Service) string {
	line, addr, usual := "nfsrdma mount -o ", s.RDMAAddr, "20049"
	if addr == nil {
		line, addr, usual = line+"proto=tcp,", s.TCPAddr, "2049"
	}
	host, port := hostPort(addr)
	if port != usual {
		line += "port=" + port
	}
	return strings.TrimSuffix(strings.TrimRight(line, ","), " -o ") + " " + host + ":" + name + " /mnt"
}

// mountLines are the commands that mount an export on Linux.
func mountLines(name string, s *nfsserver.Service) (lines []string) {
	if s.TCPAddr == nil {
		return []string{"(mount.nfs asks MOUNT over TCP: serve with --tcp-port as well)"}
	}
	host, tcp := hostPort(s.TCPAddr)
	if s.RDMAAddr != nil {
		_, rdma := hostPort(s.RDMAAddr)
		lines = append(lines, fmt.Sprintf("mount -o vers=3,proto=rdma,port=%s,nolock,mountproto=tcp,mountport=%s %s:%s /mnt", rdma, tcp, host, name))
	}
	return append(lines, fmt.Sprintf("mount -o vers=3,proto=tcp,port=%s,nolock,mountproto=tcp,mountport=%s %s:%s /mnt", tcp, tcp, host, name))
}

// hostPort is an address as a client names it: this machine's name stands for
// all of its addresses.
func hostPort(a net.Addr) (host, port string) {
	host, port, _ = net.SplitHostPort(a.String())
	ip := net.ParseIP(host)
	switch {
	case ip.IsUnspecified():
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	case ip.To4() == nil:
		host = "[" + host + "]"
	}
	return host, port
}

// notify tells the service manager, if there is one that asked (NOTIFY_SOCKET).
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.Warnf("service manager: %v", err)
	}
}
