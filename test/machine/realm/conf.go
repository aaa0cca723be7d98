// The realm's configuration files.

package realm

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// writeConf writes krb5.conf and kdc.conf.
func (r *Realm) writeConf() {
	r.t.Helper()
	for name, text := range map[string]string{"krb5.conf": r.clientConf(), "kdc.conf": r.kdcConf()} {
		if err := os.WriteFile(r.file(name), []byte(text), 0o644); err != nil {
			r.t.Fatalf("realm: %v", err)
		}
	}
}

func (r *Realm) clientConf() string {
	var b strings.Builder
	enctypes := strings.Join(r.opts.Enctypes, " ")
	fmt.Fprintf(&b, `[libdefaults]
	default_realm = %s
	dns_lookup_kdc = false
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
	ticket_lifetime = %s
	default_ccache_name = FILE:%s
	default_tkt_enctypes = %[4]s
	default_tgs_enctypes = %[4]s
	permitted_enctypes = %[4]s
`, r.Name, seconds(r.opts.Life), r.file("ccache"), enctypes)
	if r.opts.ClockSkew > 0 {
		fmt.Fprintf(&b, "\tclockskew = %d\n", int(r.opts.ClockSkew.Seconds()))
	}
	for _, k := range slices.Sorted(maps.Keys(r.opts.LibDefault)) {
		fmt.Fprintf(&b, "\t%s = %s\n", k, r.opts.LibDefault[k])
	}
	fmt.Fprintf(&b, "[realms]\n\t%s = {\n\t\tkdc = %s\n\t}\n", r.Name, r.Addr())
	fmt.Fprintf(&b, "[domain_realm]\n\tlocalhost = %s\n", r.Name)
	for _, k := range slices.Sorted(maps.Keys(r.opts.Domains)) {
		fmt.Fprintf(&b, "\t%s = %s\n", k, r.opts.Domains[k])
	}
	return b.String()
}

func (r *Realm) kdcConf() string {
	var keys []string
	for _, e := range r.opts.Enctypes {
		keys = append(keys, e+":normal")
	}
	return fmt.Sprintf(`[kdcdefaults]
	kdc_listen = %[1]s
	kdc_tcp_listen = %[1]s
[realms]
	%[2]s = {
		database_name = %[3]s
		key_stash_file = %[4]s
		acl_file = %[5]s
		max_life = %[6]s
		max_renewable_life = %[7]s
		supported_enctypes = %[8]s
		default_principal_flags = +preauth
	}
[logging]
	kdc = FILE:%[9]s
	admin_server = FILE:%[10]s
`, r.Addr(), r.Name, r.file("principal"), r.file("stash"), r.file("acl"), seconds(r.opts.Life), seconds(r.opts.RenewLife),
		strings.Join(keys, " "), r.log, r.file("kadmin.log"))
}

// seconds returns a duration in the form of the configuration files.
func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }
