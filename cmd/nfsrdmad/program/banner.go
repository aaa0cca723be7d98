// The output of serve when it is ready.

package program

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/sirupsen/logrus"
)

// maxMounts is the number of exports whose mount commands are in the banner.
const maxMounts = 3

// printServed prints the exports, the addresses and the mount commands.
func printServed(w io.Writer, o *options, set *exportSet, names []string, s *nfsserver.Service, p *portMapping) {
	how := "read-write"
	if o.readOnly {
		how = "read-only"
	}
	for _, name := range names {
		if !set.fromFile(name) {
			fmt.Fprintf(w, "serving %s (%s)\n", name, how)
		} else {
			fmt.Fprintf(w, "serving %s (to the clients that %s names)\n", name, set.file)
		}
	}
	if s.RDMAAddr != nil {
		fmt.Fprintf(w, "  RDMA: %s (iWARP, CRC %s), NFS and MOUNT\n", s.RDMAAddr, o.crc)
	}
	if s.RoCEServed() {
		fmt.Fprintf(w, "  RDMA: %s (RoCEv2, UDP port %d), NFS and MOUNT\n", s.RoCEAddr, roce.UDPPort)
	}
	if s.TCPAddr != nil {
		fmt.Fprintf(w, "  TCP:  %s, NFS and MOUNT\n", s.TCPAddr)
	}
	if p.line != "" {
		fmt.Fprintf(w, "  rpcbind: %s\n", p.line)
	}
	fmt.Fprintf(w, "  locks: %s\n", o.locks.line(s, p.locks))
	if o.metrics != "" {
		fmt.Fprintf(w, "  figures: http://%s/, for Prometheus: /metrics\n", metricsHost(o.metrics))
	}
	who := squash(o)
	fmt.Fprintf(w, "  %s\n", o.trust.line(&who, s, set))
	if line := reachLine(s, o.addr, set.file); line != "" {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, line := range set.firstWriteLines(names) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	if warning := o.trust.warning(&who, s); warning != "" && set.open() && !o.security.proven() {
		logrus.Warn(warning)
	}
	some := names[:min(len(names), maxMounts)]
	fmt.Fprintln(w, "mount, with nothing but the client binary:")
	for _, name := range some {
		fmt.Fprintf(w, "  %s\n", clientLine(name, s))
	}
	fmt.Fprintln(w, "mount from Linux:")
	for _, name := range some {
		for _, line := range mountLines(name, s, p) {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if n := len(names) - len(some); n > 0 {
		fmt.Fprintf(w, "and %s in the same way\n", text.Plural(int64(n), "more export"))
	}
}

// clientLine returns the command that mounts an export with our client, over RDMA if it is served.
func clientLine(name string, s *nfsserver.Service) string {
	line, addr, usual := "nfsrdma mount -o ", s.RDMAAddr, "20049"
	if addr == nil && s.RoCEAddr != nil {
		line, addr = line+"rdma=roce,", s.RoCEAddr
	}
	if addr == nil {
		line, addr, usual = line+"proto=tcp,", s.TCPAddr, "2049"
	}
	host, port := hostPort(addr)
	if port != usual {
		line += "port=" + port
	}
	return strings.TrimSuffix(strings.TrimRight(line, ","), " -o ") + " " + host + ":" + text.ShellWord(name) + " /mnt"
}

// mountLines returns the commands that mount an export on Linux, without the ports that mount.nfs
// finds by rpcbind.
func mountLines(name string, s *nfsserver.Service, p *portMapping) (lines []string) {
	if s.TCPAddr == nil {
		return []string{"(mount.nfs asks MOUNT over TCP: serve with --tcp-port as well)"}
	}
	host, tcp := hostPort(s.TCPAddr)
	over := s.RDMAAddr
	if over == nil {
		over = s.RoCEAddr
	}
	line := func(proto, port, usual string) {
		options := "vers=3,proto=" + proto
		// mount.nfs asks rpcbind for the TCP port only, so another RDMA port than usual must be
		// given.
		if !p.known || proto == "rdma" && port != usual {
			options += ",port=" + port
		}
		if !p.locks {
			options += ",nolock"
		}
		if !p.known {
			options += ",mountproto=tcp,mountport=" + tcp
		}
		lines = append(lines, fmt.Sprintf("mount -o %s %s:%s /mnt", options, host, text.ShellWord(name)))
	}
	if over != nil {
		_, rdma := hostPort(over)
		line("rdma", rdma, "20049")
	}
	line("tcp", tcp, "2049")
	return lines
}

// metricsHost returns the host and port of --metrics-addr for clients.
func metricsHost(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && !ip.IsUnspecified() {
		return addr
	}
	if host, err = os.Hostname(); err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// hostPort splits an address for clients. Instead of the unspecified address it returns this
// machine's name.
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

// notify sends a state to the service manager if NOTIFY_SOCKET is set.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.Warnf("service manager: %v", err)
	}
}
