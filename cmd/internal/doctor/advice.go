// The last check: command lines that should mount the export.

package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
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
	// whatever NFS's port is, the kernel queries rpcbind for NLM
	if boundPort(cu.bound, progNLM, 4) == 0 {
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
	if cu.rdma != nil && cu.mountPort != 0 && cu.xprtSec() == transport.XprtNone { // Linux has no TLS over RDMA
		cu.mounts = append(cu.mounts, line("rdma", cu.RDMAPort))
	}
	if cu.tcpPort.Kind == portprobe.RPC && cu.mountPort != 0 {
		cu.mounts = append(cu.mounts, line("tcp", cu.TCPPort))
	}
	switch {
	case len(cu.mounts) > 0 && cu.export != "" && !cu.mounted:
		return warn("repair the failure above", "the server does not let this host mount %s yet: see below for later", cu.export)
	case cu.demand != transport.XprtNone:
		return warn("name a file for each FILE: cacert= is the certificate of the server's authority (ca.crt of nfsrdmad cert), cert= and key= are of this client",
			"with xprtsec=%v, which the export demands: see below", cu.demand)
	case cu.refused:
		return warn("repair the failure above", "the server refuses the calls of this host or user: see below for later")
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
	secured := cu.xprtSec() != transport.XprtNone // RoCE has no TLS
	rest := append(append(cu.securityOptions(), cu.fileOptions()...), unusual("mountport", cu.MountPort, 0))
	if cu.rdma != nil && !(cu.roce && secured) {
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
	if x := cu.xprtSec(); x != transport.XprtNone {
		words = append(words, secure.Option("xprtsec", x.String()))
	}
	return words
}

// xprtSec returns the protection of the mounts in the command lines.
func (cu *checkup) xprtSec() transport.XprtSec {
	switch {
	case cu.demand != transport.XprtNone:
		return cu.demand
	case cu.overTLS():
		return cu.Security.XprtSec
	}
	return transport.XprtNone
}

func (cu *checkup) overTLS() bool {
	return cu.Security != nil && cu.Security.XprtSec != transport.XprtNone
}

// placeholder stands for a file that the user has to name.
const placeholder = "FILE"

// fileOptions returns nfsrdma's mount options for certificate files. For Linux's mounts tlshd has
// the files in its own configuration.
func (cu *checkup) fileOptions() (words []string) {
	if cu.xprtSec() == transport.XprtNone {
		return nil
	}
	var s secure.Settings
	if cu.Security != nil {
		s = cu.Security.Settings
	}
	if cu.demand != transport.XprtNone && cu.orAuthority() != "" {
		words = append(words, secure.Option("cacert", placeholder))
	}
	if cu.demand == transport.XprtMTLS {
		words = append(words, secure.Option("cert", placeholder), secure.Option("key", placeholder))
	}
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
