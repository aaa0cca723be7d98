// The output of serve when it is ready.

package program

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/sirupsen/logrus"
)

// maxMounts limits the exports with mount commands in the banner.
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
	if warning := set.clearWarning(); warning != "" && reachable(s) {
		logrus.Warn(warning)
	}
	printMounts(w, set, names, s, p)
}

// printMounts prints the commands that mount the first exports.
func printMounts(w io.Writer, set *exportSet, names []string, s *nfsserver.Service, p *portMapping) {
	var ours, linux, notes []string
	some := names[:min(len(names), maxMounts)]
	for _, name := range some {
		d := set.demand(name)
		ours = append(ours, clientLine(name, s, d))
		linux = append(linux, mountLines(name, s, p, d)...)
		if note := d.note(); note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for _, part := range []struct {
		head  string
		lines []string
	}{{"mount, with nothing but the client binary:", ours}, {"mount from Linux:", linux}} {
		fmt.Fprintln(w, part.head)
		for _, line := range part.lines {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	for _, note := range notes {
		fmt.Fprintln(w, note)
	}
	if n := len(names) - len(some); n > 0 {
		fmt.Fprintf(w, "and %s in the same way\n", text.Plural(int64(n), "more export"))
	}
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

// notify sends a state to the service manager if NOTIFY_SOCKET is set.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.Warnf("service manager: %v", err)
	}
}
