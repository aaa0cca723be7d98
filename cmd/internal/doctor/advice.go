// The last check: command lines that should mount the export.

package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// checkAdvice builds the command lines from the checks that passed.
func checkAdvice(_ context.Context, cu *checkup) Finding {
	export := cu.export
	if export == "" {
		export = "/export"
	}
	options := cu.securityOptions()
	if boundPort(cu.bound, progNLM, 4) == 0 { // the kernel asks rpcbind for NLM, whatever NFS's port
		options = append(options, "nolock")
	}
	if cu.mountPort != 0 {
		options = append(options, "mountproto=tcp", fmt.Sprintf("mountport=%d", cu.mountPort))
	}
	line := func(proto string, port int) string {
		o := append([]string{"vers=3", "proto=" + proto, fmt.Sprintf("port=%d", port)}, options...)
		return fmt.Sprintf("mount -t nfs -o %s %s:%s %s", strings.Join(o, ","), cu.host(), text.ShellWord(export), text.ShellWord(cu.MountPoint))
	}
	cu.mounts = cu.clientLines(export)
	ours := len(cu.mounts)
	if cu.rdma != nil && cu.mountPort != 0 && !cu.overTLS() { // Linux has no TLS over RDMA
		cu.mounts = append(cu.mounts, line("rdma", cu.RDMAPort))
	}
	if cu.tcpPort.Kind == portprobe.RPC && cu.mountPort != 0 {
		cu.mounts = append(cu.mounts, line("tcp", cu.TCPPort))
	}
	switch {
	case len(cu.mounts) > 0 && cu.export != "" && !cu.mounted:
		return warn("mend what failed above", "the server does not let this host mount %s yet: see below for later", cu.export)
	case len(cu.mounts) > ours:
		return ok("see below")
	case ours > 0:
		return warn("use nfsrdma mount, which asks MOUNT over RDMA", "mount.nfs needs MOUNT over TCP or UDP, and there is none")
	}
	return skip("", "nothing that could be mounted")
}

// clientLines returns the "nfsrdma mount" commands, which need only FUSE from the kernel.
func (cu *checkup) clientLines(export string) (lines []string) {
	line := func(words ...string) string {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		o := ""
		if len(words) > 0 {
			o = "-o " + strings.Join(words, ",") + " "
		}
		return fmt.Sprintf("nfsrdma mount %s%s:%s %s", o, cu.host(), text.ShellWord(export), text.ShellWord(cu.MountPoint))
	}
	unusual := func(name string, port, usual int) string {
		if port == usual {
			return ""
		}
		return fmt.Sprintf("%s=%d", name, port)
	}
	rest := append(append(cu.securityOptions(), cu.fileOptions()...), unusual("mountport", cu.MountPort, 0))
	if cu.rdma != nil {
		lines = append(lines, line(append([]string{yes(cu.roce, "rdma=roce", ""), unusual("port", cu.RDMAPort, 20049)}, rest...)...))
	}
	if cu.tcp != nil {
		lines = append(lines, line(append([]string{"proto=tcp", unusual("port", cu.TCPPort, 2049)}, rest...)...))
	}
	return lines
}

// securityOptions returns the mount options of the checked flavor and of TLS.
func (cu *checkup) securityOptions() (words []string) {
	if f, kerberos := cu.flavor(); kerberos {
		words = append(words, "sec="+nfsclient.SecName(f))
	}
	if cu.overTLS() {
		words = append(words, "xprtsec="+cu.Security.XprtSec.String())
	}
	return words
}

func (cu *checkup) overTLS() bool {
	return cu.Security != nil && cu.Security.XprtSec != transport.XprtNone
}

// fileOptions returns nfsrdma's mount options for certificate files. Linux's tlshd has its own.
func (cu *checkup) fileOptions() (words []string) {
	if !cu.overTLS() {
		return nil
	}
	s := cu.Security.Settings
	for _, o := range []struct{ name, file string }{{"cacert", s.CACert}, {"cert", s.Cert}, {"key", s.Key}, {"crl", s.CRL}} {
		if name, err := filepath.Abs(o.file); o.file != "" && err == nil {
			words = append(words, o.name+"="+text.ShellWord(name))
		}
	}
	if s.TLSName != "" {
		words = append(words, "tlsname="+text.ShellWord(s.TLSName))
	}
	return words
}

// host returns the server as it appears in a command line before a colon or path.
func (cu *checkup) host() string {
	if strings.Contains(cu.Host, ":") {
		return "[" + cu.Host + "]"
	}
	return cu.Host
}
