// The settings of krb5.conf that clients and services use.

package krb5

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// A Config is a krb5.conf as it was read. It does not change.
type Config struct {
	profile profile
	kdc     *config.Config // gokrb5's part, for exchanges with KDCs
	skew    time.Duration

	files, dns resolver // of names: /etc/hosts, and DNS
	resolvConf string   // path
}

// LoadConfig reads files in order. Without paths it takes those in KRB5_CONFIG, separated by
// colons, or /etc/krb5.conf.
func LoadConfig(paths ...string) (*Config, error) {
	if len(paths) == 0 {
		paths = strings.Split("/etc/krb5.conf", ":")
		if env := os.Getenv("KRB5_CONFIG"); env != "" {
			paths = strings.Split(env, ":")
		}
	}
	p, err := readProfile(paths)
	if err != nil {
		return nil, fmt.Errorf("krb5: configuration: %w", err)
	}
	c := &Config{profile: p, skew: DefaultClockSkew, files: filesResolver, dns: net.DefaultResolver, resolvConf: "/etc/resolv.conf"}
	if d, ok := parseDuration(p.first("libdefaults/clockskew", "")); ok {
		c.skew = d
	}
	c.kdc = c.forKDC()
	return c, nil
}

// forKDC returns the part for gokrb5's exchanges.
func (c *Config) forKDC() *config.Config {
	k := config.New()
	l := &k.LibDefaults
	l.DefaultRealm = c.Realm()
	l.Clockskew = c.skew
	l.DNSLookupKDC = c.profile.yes("libdefaults/dns_lookup_kdc", true)
	l.DefaultTGSEnctypeIDs = c.enctypes("default_tgs_enctypes")
	l.DefaultTktEnctypeIDs = c.enctypes("default_tkt_enctypes")
	if d, ok := parseDuration(c.profile.first("libdefaults/ticket_lifetime", "")); ok {
		l.TicketLifetime = d
	}
	if n, err := strconv.Atoi(c.profile.first("libdefaults/udp_preference_limit", "")); err == nil {
		l.UDPPreferenceLimit = n
	}
	for path, values := range c.profile {
		if name, ok := strings.CutPrefix(path, "realms/"); ok {
			if realm, ok := strings.CutSuffix(name, "/kdc"); ok {
				k.Realms = append(k.Realms, config.Realm{Realm: realm, KDC: kdcAddresses(values)})
			}
		}
	}
	return k
}

// kdcAddresses returns host:port for each KDC. Proxies over HTTPS are not supported.
func kdcAddresses(values []string) (list []string) {
	for _, v := range values {
		v = strings.TrimSpace(strings.TrimSuffix(v, "*"))
		if strings.Contains(v, "://") {
			continue
		}
		if _, _, err := net.SplitHostPort(v); err != nil {
			v = net.JoinHostPort(strings.Trim(v, "[]"), "88")
		}
		list = append(list, v)
	}
	return list
}

// enctypes returns the supported enctypes in a list of libdefaults; without any, those in
// permitted_enctypes, or all.
func (c *Config) enctypes(relation string) (ids []int32) {
	text := c.profile.first("libdefaults/"+relation, c.profile.first("libdefaults/permitted_enctypes", ""))
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		for _, id := range enctypesNamed(word) {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) > 0 {
		return ids
	}
	for _, e := range enctypes {
		ids = append(ids, e.id)
	}
	return ids
}

// enctypesNamed returns the enctypes for a word in krb5.conf: a name, MIT's short name, or a
// family.
func enctypesNamed(word string) []int32 {
	switch strings.ToLower(word) {
	case "aes", "default":
		return []int32{AES256SHA1, AES128SHA1, AES256SHA2, AES128SHA2}
	case "aes256-cts-hmac-sha1-96", "aes256-cts", "aes256-sha1":
		return []int32{AES256SHA1}
	case "aes128-cts-hmac-sha1-96", "aes128-cts", "aes128-sha1":
		return []int32{AES128SHA1}
	case "aes256-cts-hmac-sha384-192", "aes256-sha2":
		return []int32{AES256SHA2}
	case "aes128-cts-hmac-sha256-128", "aes128-sha2":
		return []int32{AES128SHA2}
	}
	return nil
}

// parseDuration parses a duration in krb5.conf: seconds, "1h30m", "2d 3h", or "h:m:s".
func parseDuration(s string) (time.Duration, bool) {
	s = strings.ReplaceAll(s, " ", "")
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second, true
	}
	var total time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		if err != nil {
			return 0, false
		}
		if total, s = time.Duration(n)*24*time.Hour, rest; s == "" {
			return total, true
		}
	}
	if f := strings.Split(s, ":"); len(f) == 2 || len(f) == 3 {
		s = f[0] + "h" + f[1] + "m"
		if len(f) == 3 {
			s += f[2] + "s"
		}
	}
	d, err := time.ParseDuration(s)
	return total + d, err == nil && d >= 0
}

// Realm returns default_realm, or "".
func (c *Config) Realm() string { return c.profile.first("libdefaults/default_realm", "") }

// ClockSkew returns the tolerated difference of clocks.
func (c *Config) ClockSkew() time.Duration { return c.skew }

// KDCs returns the addresses of a realm's KDCs in krb5.conf, "host:port". Without any, gokrb5 asks
// DNS.
func (c *Config) KDCs(realm string) []string {
	return kdcAddresses(c.profile["realms/"+realm+"/kdc"])
}

// RealmOf maps a host to a realm by domain_realm: by its name, then by its domains, the longest
// first. "": there is no mapping.
func (c *Config) RealmOf(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if realm := c.profile.first("domain_realm/"+host, ""); realm != "" {
		return realm
	}
	for rest := host; ; {
		_, domain, ok := strings.Cut(rest, ".")
		if !ok {
			return ""
		}
		for _, key := range []string{"." + domain, domain} {
			if realm := c.profile.first("domain_realm/"+key, ""); realm != "" {
				return realm
			}
		}
		rest = domain
	}
}

// KeytabName returns the path of the service's keytab: KRB5_KTNAME, default_keytab_name, or
// /etc/krb5.keytab.
func (c *Config) KeytabName() string {
	s := os.Getenv("KRB5_KTNAME")
	if s == "" {
		s = expand(c.profile.first("libdefaults/default_keytab_name", "/etc/krb5.keytab"), os.Getuid())
	}
	for _, prefix := range []string{"FILE:", "WRFILE:"} {
		s = strings.TrimPrefix(s, prefix)
	}
	return s
}

// CacheName returns the name of a user's credential cache: default_ccache_name, or
// FILE:/tmp/krb5cc_UID. For this process's user KRB5CCNAME comes first.
func (c *Config) CacheName(uid int) string {
	if env := os.Getenv("KRB5CCNAME"); env != "" && uid == os.Getuid() {
		return env
	}
	return expand(c.profile.first("libdefaults/default_ccache_name", "FILE:/tmp/krb5cc_%{uid}"), uid)
}

// expand replaces the parameters in a path from krb5.conf.
func expand(s string, uid int) string {
	if !strings.Contains(s, "%{") {
		return s
	}
	id := strconv.Itoa(uid)
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	return strings.NewReplacer("%{uid}", id, "%{euid}", id, "%{USERID}", id, "%{username}", name,
		"%{TEMP}", os.TempDir(), "%{null}", "").Replace(s)
}
