// The last check: command lines that should mount the export.

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// checkAdvice builds the command lines from the checks that passed.
func checkAdvice(_ context.Context, x *exam) Finding {
	export := x.export
	if export == "" {
		export = "/export"
	}
	options := []string{}
	if boundPort(x.bound, progNLM, 4) == 0 { // the kernel asks rpcbind for NLM, whatever NFS's port
		options = append(options, "nolock")
	}
	if x.mountPort != 0 {
		options = append(options, "mountproto=tcp", fmt.Sprintf("mountport=%d", x.mountPort))
	}
	line := func(proto string, port int) string {
		o := append([]string{"vers=3", "proto=" + proto, fmt.Sprintf("port=%d", port)}, options...)
		return fmt.Sprintf("mount -t nfs -o %s %s:%s %s", strings.Join(o, ","), x.host(), text.ShellWord(export), text.ShellWord(x.MountPoint))
	}
	x.mounts = x.clientLines(export)
	ours := len(x.mounts)
	if x.rdma != nil && x.mountPort != 0 {
		x.mounts = append(x.mounts, line("rdma", x.RDMAPort))
	}
	if x.tcpPort.Kind == portprobe.RPC && x.mountPort != 0 {
		x.mounts = append(x.mounts, line("tcp", x.TCPPort))
	}
	switch {
	case len(x.mounts) > 0 && x.export != "" && !x.mounted:
		return warn("mend what failed above", "the server does not let this host mount %s yet: see below for later", x.export)
	case len(x.mounts) > ours:
		return ok("see below")
	case ours > 0:
		return warn("use nfsrdma mount, which asks MOUNT over RDMA", "mount.nfs needs MOUNT over TCP or UDP, and there is none")
	}
	return skip("", "nothing that could be mounted")
}

// clientLines returns the mount commands of this program, which needs only FUSE from the kernel.
func (x *exam) clientLines(export string) (lines []string) {
	line := func(words ...string) string {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		o := ""
		if len(words) > 0 {
			o = "-o " + strings.Join(words, ",") + " "
		}
		return fmt.Sprintf("nfsrdma mount %s%s:%s %s", o, x.host(), text.ShellWord(export), text.ShellWord(x.MountPoint))
	}
	unusual := func(name string, port, usual int) string {
		if port == usual {
			return ""
		}
		return fmt.Sprintf("%s=%d", name, port)
	}
	mount := unusual("mountport", x.MountPort, 0)
	if x.rdma != nil {
		lines = append(lines, line(yes(x.roce, "rdma=roce", ""), unusual("port", x.RDMAPort, 20049), mount))
	}
	if x.tcp != nil {
		lines = append(lines, line("proto=tcp", unusual("port", x.TCPPort, 2049), mount))
	}
	return lines
}

// host returns the server as it appears in a command line before a colon or path.
func (x *exam) host() string {
	if strings.Contains(x.Host, ":") {
		return "[" + x.Host + "]"
	}
	return x.Host
}
