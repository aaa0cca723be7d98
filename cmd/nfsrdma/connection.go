// The connection flags, for all commands that connect.

package main

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// connectTimeout is the default of --connect-timeout.
const connectTimeout = 10 * time.Second

// connectionWords are the values of connection flags, for completion.
var connectionWords = map[string][]string{
	"proto": {"rdma", "tcp", "auto"},
	"rdma":  {"auto", "iwarp", "roce"},
	"crc":   {"on", "auto", "off", "strict"},

	"sec":     secure.SecWords(),
	"xprtsec": {"none", "tls", "mtls"},
}

// oldConnectionFlags maps old flag names to the present ones.
var oldConnectionFlags = map[string]string{"transport": "proto", "provider": "rdma", "conns": "nconnect"}

// addConnectionFlags adds the connection flags to cmd.
func addConnectionFlags(cmd *cobra.Command, s *session.Session) {
	f := cmd.Flags()
	f.StringVar(&s.Flags.Proto, "proto", "", "transport `PROTO`: rdma, tcp or auto (RDMA, else TCP) (default rdma, or tcp for an nfs:// path)")
	f.StringVar(&s.Flags.RDMA, "rdma", "auto", "RDMA `PROTOCOL`: iwarp (over TCP), roce (RoCEv2, over UDP) or auto (iWARP, else RoCE)")
	f.IntVar(&s.Flags.NConnect, "nconnect", 1, "connect `N` times to each server")
	f.IntVar(&s.Flags.MountPort, "mount-port", 0, "TCP `PORT` of the server's MOUNT service (default: the NFS port, then the one from rpcbind)")
	f.StringVar(&s.Flags.CRC, "crc", "on", "CRCs over iWARP: `MODE` on, auto, off or strict (check a CRC before any byte is placed)")
	addSecurityFlags(f, &s.Flags)
	cli.DurationVar(f, &s.Flags.ConnectTimeout, "connect-timeout", connectTimeout, "wait at most `TIME` for a connection and a mount")
	cli.DurationVar(f, &s.Flags.Timeout, "timeout", 0, "wait at most `TIME` for a silent server; 0: no limit")
	for name, words := range connectionWords {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	for old, name := range oldConnectionFlags {
		cli.Renamed(cmd, old, name)
	}
}

// addSecurityFlags adds the flags of Kerberos and TLS.
func addSecurityFlags(f *pflag.FlagSet, to *session.Flags) {
	f.StringVar(&to.Sec, "sec", "", "security `FLAVOR`: sys, krb5, krb5i or krb5p, or several with colons between them (default: the first of the server's list that this machine can use)")
	f.StringVar(&to.Files.Keytab, "keytab", "", "`FILE` with this machine's Kerberos keys, for root (default /etc/krb5.keytab)")
	f.StringVar(&to.XprtSec, "xprtsec", "none", "TLS `LEVEL`: none, tls (check the server's certificate) or mtls (also send one)")
	f.StringVar(&to.Files.CACert, "cacert", "", "PEM `FILE` of certificates that issue the server's (default: those this system trusts)")
	f.StringVar(&to.Files.Cert, "cert", "", "PEM `FILE` with this client's certificate, for mtls")
	f.StringVar(&to.Files.Key, "key", "", "PEM `FILE` with the key of this client's certificate")
	f.StringVar(&to.Files.CRL, "crl", "", "PEM `FILE` with revocation lists (default: no certificate counts as revoked)")
	f.StringVar(&to.Files.TLSName, "tls-name", "", "the `NAME` in the server's certificate (default: the server's name)")
}

// connectionArgs returns the connection flags given to cmd, as arguments for another process of
// this program.
func connectionArgs(cmd *cobra.Command) (args []string) {
	for _, name := range []string{"proto", "rdma", "nconnect", "mount-port", "crc", "connect-timeout", "timeout",
		"sec", "keytab", "xprtsec", "cacert", "cert", "key", "crl", "tls-name"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			args = append(args, "--"+name+"="+f.Value.String())
		}
	}
	return args
}
