// Security of serve: its flags, TLS, and the check that all demands of exports can be met.

package program

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/internal/logto"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/certs"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
)

// security has the values of the flags about TLS and Kerberos, and the state that open makes from
// them.
type security struct {
	cert, key string
	clientCA  []string
	crl       []string
	sec       string
	xprtsec   string
	tlsKernel string
	kerberos  kerberos

	store    *certs.Store // set by open; nil: no TLS
	inKernel bool         // set by open: the kernel encrypts sessions
}

func (s *security) flags(f *pflag.FlagSet) {
	f.StringVar(&s.cert, "tls-cert", "", "serve TLS (RFC 9289 over TCP, and below iWARP) with the certificate in this PEM `FILE` (nfsrdmad cert makes one); a changed file is used without a restart")
	f.StringVar(&s.key, "tls-key", "", "`FILE` with the key of --tls-cert (default: --tls-cert has it)")
	f.StringArrayVar(&s.clientCA, "tls-client-ca", nil, "`FILE` with the authorities of client certificates, for xprtsec=mtls; may be repeated")
	f.StringArrayVar(&s.crl, "tls-crl", nil, "`FILE` with a revocation list of such an authority; may be repeated")
	f.StringVar(&s.tlsKernel, "tls-kernel", kernelOff, "`MODE` of encryption over TCP: off (in this process), on (in the Linux kernel: modprobe tls), or auto (in the kernel if it follows clients that change their keys: Linux 6.14)")
	f.StringVar(&s.sec, "sec", "", "the accepted `FLAVORS` of the directories of the command line, as sec= in the exports file: such as krb5p:krb5i (default: sys:none)")
	f.StringVar(&s.xprtsec, "xprtsec", "", "the accepted `LEVELS` of TLS for the directories of the command line, as xprtsec= in the exports file: such as tls:mtls (default: none:tls:mtls)")
	s.kerberos.flags(f)
}

// openStore reads the files of TLS.
func (s *security) openStore() (err error) {
	switch {
	case s.cert == "" && (s.key != "" || len(s.clientCA) > 0 || len(s.crl) > 0):
		return errors.New("--tls-key, --tls-client-ca and --tls-crl need a certificate: name it with --tls-cert")
	case s.cert == "":
		return nil
	}
	o := certs.Options{Certificate: s.cert, Key: s.key, Authorities: s.clientCA, Revocations: s.crl, Log: logto.Standard}
	if len(s.clientCA) > 0 {
		o.ClientAuth = certs.OptionalClientCert
	}
	s.store, err = certs.Open(o)
	return err
}

// open reads the files of the flags.
func (s *security) open() error {
	if err := s.openStore(); err != nil {
		return err
	}
	if err := s.chooseKernel(transport.ProbeKernelTLS); err != nil {
		return err
	}
	if err := s.kerberos.load(); err != nil {
		return err
	}
	demands, err := exports.ParseSecurity(s.sec, s.xprtsec)
	if err != nil {
		return fmt.Errorf("--%w", err)
	}
	if problem := s.lacks(&demands); problem != "" {
		return errors.New("--" + problem)
	}
	return nil
}

// demands returns the flags' demands for the command line's exports. open has validated the flags.
func (s *security) demands() exports.Security {
	d, _ := exports.ParseSecurity(s.sec, s.xprtsec)
	return d
}

// apply makes a server offer TLS and Kerberos.
func (s *security) apply(l *nfsserver.Listen) {
	if s.store != nil {
		l.RPC.TLS, l.RPC.KernelTLS = s.store.Server, s.inKernel
	}
	l.RPC.Security = append(l.RPC.Security, &s.kerberos.live.flavor)
}

// lacks returns a rule's first demand that no client can meet, with the cure; "": none.
func (s *security) lacks(d *exports.Security) string {
	switch {
	case d.XprtSec > transport.XprtNone && s.store == nil:
		return fmt.Sprintf("xprtsec=%s needs a certificate of the server: name it with --tls-cert (nfsrdmad cert makes one)", d.XprtSec)
	case d.XprtSec == transport.XprtMTLS && len(s.clientCA) == 0:
		return "xprtsec=mtls needs the authority of the clients' certificates: name its file with --tls-client-ca"
	}
	for _, f := range d.Flavors() {
		if f.Flavor > oncrpc.FlavorSys {
			if err := s.kerberos.start(); err != nil {
				return fmt.Sprintf("sec=%s: %v", exports.FlavorName(f.Flavor), err)
			}
			break
		}
	}
	return ""
}

// check returns an error if a rule of the file has a demand that no client can meet.
func (s *security) check(file string, f *exports.File) error {
	for _, x := range f.Exports {
		for i := range x.Clients {
			c := &x.Clients[i]
			if problem := s.lacks(&c.Options.Security); problem != "" {
				return c.Mistake(file, problem)
			}
		}
	}
	return nil
}

// warn logs weak combinations in a file's rules.
func (s *security) warn(file string, f *exports.File) {
	for _, x := range f.Exports {
		for i := range x.Clients {
			c := &x.Clients[i]
			if mixed(&c.Options.Security) {
				logrus.Warn(c.Mistake(file, "sec= names sys beside Kerberos: a client that mounts with sec=sys can still claim to be any user"))
			}
		}
	}
}

// clearWarning returns a warning if the server has TLS, and rules accept connections in clear; or
// "". A client without sec= uses MNT's list of flavors, which is forgeable in clear.
func (s *exportSet) clearWarning() string {
	if s.o.security.store == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	flags := s.o.security.demands()
	var names []string
	for _, e := range s.list {
		inClear := flags.XprtSec == transport.XprtNone
		if e.Rules != nil {
			inClear = slices.ContainsFunc(e.Rules.Clients, func(c exports.Client) bool { return c.Options.XprtSec == transport.XprtNone })
		}
		if inClear {
			names = append(names, e.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	which := names[0]
	if more := len(names) - 1; more > 0 {
		which += " and " + text.Plural(int64(more), "more export")
	}
	return fmt.Sprintf("%s: clients may mount in clear, though the server has TLS, and others on the network can forge the flavors that they get: "+
		"write xprtsec=tls into the exports file (--xprtsec tls for the command line), or mount with xprtsec=tls and sec=", which)
}

// proven reports whether all callers of the command line's directories prove their user.
func (s *security) proven() bool {
	d := s.demands()
	return proven(&d)
}

// proven reports whether a rule accepts Kerberos flavors alone.
func proven(d *exports.Security) bool {
	flavors := d.Flavors()
	return len(flavors) > 0 && !slices.ContainsFunc(flavors, func(f exports.FlavorAccess) bool { return f.Flavor <= oncrpc.FlavorSys })
}

// mixed reports whether a rule with a Kerberos flavor also accepts users without proof.
func mixed(d *exports.Security) bool {
	claimed, proven := false, false
	for _, f := range d.Flavors() {
		claimed = claimed || f.Flavor == oncrpc.FlavorSys && !f.AllSquash
		proven = proven || f.Flavor > oncrpc.FlavorSys
	}
	return claimed && proven
}

// reload reads the table of principals again. Other files are checked for changes when they are
// used.
func (s *security) reload() error { return s.kerberos.load() }
