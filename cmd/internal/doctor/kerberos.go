// Checks of Kerberos: the realm and its clock, the keytab, the user's ticket, and a security
// context with the server.

package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// krb5Flavors lists the flavors of Kerberos.
var krb5Flavors = []oncrpc.Flavor{oncrpc.FlavorKrb5, oncrpc.FlavorKrb5i, oncrpc.FlavorKrb5p}

// flavor returns the first flavor of the export's list that --sec allows and this client knows, and
// whether it needs Kerberos. If the export has no list, or none of these flavors, it returns the
// first flavor in --sec.
func (cu *checkup) flavor() (f oncrpc.Flavor, kerberos bool) {
	var wanted []oncrpc.Flavor
	if cu.Security != nil {
		wanted = cu.Security.Flavors()
	}
	for _, n := range cu.flavors {
		f, kerberos := oncrpc.Flavor(n), slices.Contains(krb5Flavors, oncrpc.Flavor(n))
		if (len(wanted) == 0 || slices.Contains(wanted, f)) && (kerberos || f == oncrpc.FlavorSys) {
			return f, kerberos
		}
	}
	if len(wanted) > 0 {
		return wanted[0], slices.Contains(krb5Flavors, wanted[0])
	}
	return oncrpc.FlavorSys, false
}

// usableFlavor reports whether this client may use a flavor of the export.
func (cu *checkup) usableFlavor() bool {
	if len(cu.flavors) == 0 {
		return true
	}
	f, kerberos := cu.flavor()
	if kerberos && cu.kerberos() == nil {
		return false
	}
	return slices.Contains(cu.flavors, uint32(f)) || slices.Contains(cu.flavors, uint32(oncrpc.FlavorNone))
}

// kerberos returns the credentials to check, or nil if the mount does without Kerberos.
func (cu *checkup) kerberos() *secure.Kerberos {
	if _, needed := cu.flavor(); !needed || cu.Security == nil {
		return nil
	}
	return cu.Security.Kerberos
}

// secure sets the security options of a connection. The name is the server's as given, because the
// connection goes to the examined address.
func (cu *checkup) secure(o *nfsclient.Options) error {
	if cu.Security == nil {
		return nil
	}
	if err := cu.Security.Apply(o); err != nil {
		return err
	}
	if o.TLS != nil {
		o.TLS = func(string) *tls.Config { return cu.Security.Config(cu.Host) }
	}
	if gss := o.GSS; gss != nil {
		o.GSS = func(f oncrpc.Flavor, _ string) (*transport.Auth, error) { return gss(f, cu.Host) }
	}
	return nil
}

// unneeded is the finding for a check of Kerberos if the mount does not use Kerberos. The finding
// is not shown.
var unneeded = Finding{hidden: true}

// kerberosFault returns a failure, or a warning if the export takes AUTH_SYS too.
func (cu *checkup) kerberosFault(advice, format string, args ...any) Finding {
	if (cu.Security == nil || !cu.Security.Settings.Kerberos()) && slices.Contains(cu.flavors, uint32(oncrpc.FlavorSys)) {
		return warn(advice, format, args...)
	}
	return fail(advice, format, args...)
}

// checkRealm reads krb5.conf, and compares the clocks of the realm's KDCs with this machine's.
func checkRealm(ctx context.Context, cu *checkup) Finding {
	k := cu.kerberos()
	if k == nil {
		return unneeded
	}
	conf, err := k.Config()
	if err != nil {
		return cu.kerberosFault("install one of the realm: /etc/krb5.conf, or the file in KRB5_CONFIG", "%v", err)
	}
	realm := conf.Realm()
	if realm == "" {
		return cu.kerberosFault("set default_realm in [libdefaults] of krb5.conf", "krb5.conf names no default_realm")
	}
	kdcs := findKDCs(ctx, conf, realm)
	if len(kdcs) == 0 {
		return cu.kerberosFault("name one: kdc = HOST in [realms] of krb5.conf", "realm %s: no KDC in krb5.conf or DNS", realm)
	}
	var reasons []string
	for _, kdc := range kdcs {
		at, err := cu.kdcTime(ctx, kdc, realm)
		if err != nil {
			reasons = append(reasons, kdc+": "+innermostError(err))
			continue
		}
		off := at.Sub(cu.Now())
		text := fmt.Sprintf("realm %s, KDC %s, clocks differ by %v", realm, kdc, off.Abs().Round(time.Second))
		if off.Abs() > conf.ClockSkew() {
			return cu.kerberosFault("set the clocks of this machine and of the KDC by NTP (chronyc tracking, timedatectl)", "%s, at most %v is allowed", text, conf.ClockSkew())
		}
		return ok("%s", text)
	}
	return cu.kerberosFault("see that the KDC runs and that port 88 is open: TCP and UDP", "realm %s: no KDC answers: %s", realm, strings.Join(reasons, "; "))
}

// checkKeytab reads the keytab, which root's calls use.
func checkKeytab(_ context.Context, cu *checkup) Finding {
	k := cu.kerberos()
	if k == nil || os.Geteuid() != 0 || cu.Security.RootCache {
		return unneeded
	}
	name := k.Keytab()
	entries, err := krb5.ReadKeytab(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return warn("only root's calls need it: extract one for host/"+hostname()+" (ktadd -k "+name+"), or give root a ticket by kinit", "%s does not exist", name)
	case err != nil:
		return warn("extract it again (ktadd -k "+name+")", "%v", err)
	case len(entries) == 0:
		return warn("extract keys into it (ktadd -k "+name+")", "%s is empty", name)
	}
	var words, names []string
	for _, e := range entries {
		word := fmt.Sprintf("%s kvno %d", e.Principal, e.Version)
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
		if n := krb5.EnctypeName(e.Enctype); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	text := fmt.Sprintf("%s: %s (%s)", name, strings.Join(words[:min(len(words), shownExports)], ", "), strings.Join(names, ", "))
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "aes") }) {
		return warn("extract it again with AES keys", "%s: no key of an enctype that is supported", text)
	}
	return ok("%s", text)
}

func hostname() string {
	name, _ := os.Hostname()
	return name
}

// checkTicket finds the ticket of this user.
func checkTicket(ctx context.Context, cu *checkup) Finding {
	k := cu.kerberos()
	if k == nil {
		return unneeded
	}
	principal, from, end, err := k.Principal(ctx, uint32(os.Geteuid()))
	if err != nil {
		return cu.kerberosFault(secure.KerberosCure(err, cu.Host), "%v", err)
	}
	return ok("%s, from %s, until %s", principal, from, end.Local().Format(time.DateTime))
}

// checkContext makes a security context with the server, and one call in it.
func checkContext(ctx context.Context, cu *checkup) Finding {
	k := cu.kerberos()
	if k == nil {
		return unneeded
	}
	c := cu.rdma
	if c == nil || cu.TCP && cu.tcp != nil {
		c = cu.tcp
	}
	if c == nil {
		return skip("", "not tried: no connection that answers")
	}
	f, _ := cu.flavor()
	auth := k.Auth(uint32(os.Geteuid()), f, cu.Host)
	err := c.CallAs(ctx, auth, &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}, nil, nil, nil, 0)
	if err != nil {
		return cu.kerberosFault(secure.KerberosCure(err, cu.Host), "%s: %v", nfsclient.SecName(f), err)
	}
	return ok("%s: the server knows itself and this user", nfsclient.SecName(f))
}
