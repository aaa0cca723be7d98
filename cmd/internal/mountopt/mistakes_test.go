// Refused options, and their errors.

package mountopt

import (
	"strings"
	"testing"
)

// securityMistakes are errors of the options of TLS and Kerberos.
var securityMistakes = map[string]string{
	"xprtsec=ssl":                "option xprtsec=ssl: must be none, tls or mtls",
	"xprtsec=mtls":               "xprtsec=mtls needs a certificate of this client: add cert=FILE and key=FILE",
	"xprtsec=tls,xprtsec=none":   "options xprtsec=tls and xprtsec=none contradict each other",
	"cacert=/ca.pem":             "option cacert has no effect without TLS: add xprtsec=tls",
	"xprtsec=tls,cert=/c,key=/k": "xprtsec=tls sends no certificate of this client: write xprtsec=mtls",
	"cacert":                     "option cacert: a value is missing: write cacert=FILE",
	"sec=krb5,keytab=k":          "option keytab=k: must be an absolute path",
	"xprtsec=tls,cacert=":        "option cacert=: a value is missing",
	"xprtsec=tls,tlsname=":       "option tlsname=: a value is missing",
	`xprtsec=tls,crl=/a"b"`:      `option crl=/a"b": must not contain a quote`,
	"keytab=/k,sec=sys":          "option keytab has no effect with sec=sys: Kerberos is sec=krb5",
	"sec=sys,rootcred=ccache":    "option rootcred has no effect with sec=sys: Kerberos is sec=krb5",
	"rootcred=root":              "option rootcred=root: must be keytab or ccache",
	"sec=krb5,uid=5":             "options uid=5 and sec=krb5 contradict each other: with Kerberos a user is whom the ticket names",
	"gid=5,sec=krb5i:krb5p":      "options gid=5 and sec=krb5i:krb5p contradict each other: with Kerberos",
	"sec=krb5,sec=sys":           "options sec=krb5 and sec=sys contradict each other",
	"sec=none":                   "option sec=none: must be sys, krb5, krb5i or krb5p, or several with colons between them",
}

// A mistake gives one line that names the option as typed and the accepted values.
func TestMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"sofft":                     `unknown option "sofft": did you mean soft?`,
		"rszie=3":                   `unknown option "rszie": did you mean rsize?`,
		"hrd":                       `unknown option "hrd": did you mean hard?`,
		"fb":                        `unknown option "fb": did you mean fg?`,
		"zzz=1":                     `unknown option "zzz": nfsrdma mount --help lists the options`,
		"proto=udp":                 "option proto=udp: NFS over UDP is not spoken: write proto=tcp or proto=rdma",
		"udp":                       "option udp: NFS over UDP is not spoken: write proto=tcp or proto=rdma",
		"proto=sctp":                "option proto=sctp: must be rdma, tcp or auto",
		"mounthost=":                "option mounthost=: must be the name or the address of a host",
		"mounthost=a,mountaddr=b":   "options mounthost=a and mountaddr=b contradict each other",
		"context=":                  "option context=: must be a label such as system_u:object_r:nfs_t:s0",
		"write=soon":                "option write=soon: must be lazy or eager or wait",
		"max_connect=17":            "option max_connect=17: must be a number from 1 to 16",
		"fsc,nofsc":                 "options fsc and nofsc contradict each other",
		"minorversion=1":            "option minorversion=1: NFS version 3 has no minor versions: leave it out",
		"port":                      "option port: a value is missing: write port=N",
		"timeo=5s":                  "option timeo=5s: must be tenths of a second (timeo=50 is 5 s)",
		"retry=2m":                  "option retry=2m: must be minutes from 0",
		"actimeo=1s":                "option actimeo=1s: must be seconds from 0",
		"nfsvers=4":                 "option nfsvers=4: only NFS version 3 is implemented: write vers=3",
		"port=x":                    "option port=x: must be a number from 0 to 65535",
		"port=+5":                   "option port=+5: must be a number from 0 to 65535",
		"port=70000":                "option port=70000: must be a number",
		"soft=1":                    "option soft=1: soft has no value: write soft alone",
		"rdma=siw":                  "option rdma=siw: must be auto, iwarp or roce",
		"rdma=iwarp,provider=roce":  "options rdma=iwarp and provider=roce contradict each other",
		"rdma,tcp":                  "options rdma and tcp contradict each other",
		"timeo=0":                   "option timeo=0: must be tenths of a second (timeo=50 is 5 s) from 1 to 6000",
		"crc=maybe":                 "option crc=maybe: must be on, auto, off or strict",
		"lookupcache=x":             "option lookupcache=x: must be all, pos or none",
		"memory=1M":                 "option memory=1M: must be a size of at least 16M",
		"uid=joe":                   "option uid=joe: must be a number: id -u NAME prints",
		"uid=4294967295":            "option uid=4294967295: must be a number",
		"vers=4.2":                  "option vers=4.2: only NFS version 3 is implemented: write vers=3",
		"mountproto=rdma":           "option mountproto=rdma: must be tcp or tcp6 or udp or udp6",
		"remount,ro":                "option remount: options of a mount cannot be changed",
		"nolock,local_lock=none":    "options nolock and local_lock=none contradict each other",
		"lock,nolock":               "options lock and nolock contradict each other",
		"local_lock=maybe":          "option local_lock=maybe: must be all, flock, posix or none",
		"soft,hard":                 "options soft and hard contradict each other",
		"hard,softerr":              "options hard and softerr contradict each other",
		"proto=rdma,tcp":            "options proto=rdma and tcp contradict each other",
		"port=1,port=2":             "options port=1 and port=2 contradict each other",
		"bg,fg":                     "options bg and fg contradict each other",
		"cto,nocto":                 "options cto and nocto contradict each other",
		"ac,noac":                   "options ac and noac contradict each other",
		"sync,async":                "options sync and async contradict each other",
		"noac,async":                "options noac and async contradict each other",
		"noac,acregmin=3":           "options noac and acregmin=3 contradict each other",
		"actimeo=5,acdirmax=6":      "options actimeo=5 and acdirmax=6 contradict each other",
		"acregmin=9,acregmax=8":     "options acregmin=9 and acregmax=8 contradict each other: the minimum",
		"rdirplus,nordirplus":       "options rdirplus and nordirplus contradict each other",
		"acl,noacl":                 "options acl and noacl contradict each other",
		"resvport,noresvport":       "options resvport and noresvport contradict each other",
		"allow_other,noallow_other": "options allow_other and noallow_other contradict each other",
	} {
		wantMistake(t, in, want)
	}
	if o, err := Parse([]string{"rw", "zzz=1,soft"}, true); err != nil || o.Recovery != Soft {
		t.Errorf("sloppy: %+v, %v", o, err)
	}
}

func TestSecurityMistakes(t *testing.T) {
	for in, want := range securityMistakes {
		wantMistake(t, in, want)
	}
}

// wantMistake checks the one-line error of a list.
func wantMistake(t *testing.T, list, want string) {
	t.Helper()
	switch _, err := Parse([]string{list}, false); {
	case err == nil:
		t.Errorf("%q: no error, want %s", list, want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%q: %v\nwant %s", list, err, want)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%q: more than one line: %v", list, err)
	}
}

// TestMistakesOfValues: quotes, and values just outside the limits, give errors.
func TestMistakesOfValues(t *testing.T) {
	for in, want := range map[string]string{
		`comment=5"disk,nosuid`:            `option comment=5"disk,nosuid: the quote is not closed`,
		`x-a="b,ro`:                        `option x-a="b,ro: the quote is not closed`,
		`ro,"`:                             `option ": the quote is not closed`,
		"rdma=":                            "option rdma=: a value is missing: write rdma alone, or rdma[=auto|iwarp|roce]",
		`tcp,rdma=""`:                      `option rdma="": a value is missing`,
		"user=":                            "option user=: a value is missing: write user alone, or user[=NAME]",
		"mounthost=[]":                     "option mounthost=[]: must be the name or the address of a host",
		"mounthost=[::1":                   "option mounthost=[::1: must be",
		"mounthost=a]":                     "option mounthost=a]: must be",
		"mounthost=a/b":                    "option mounthost=a/b: must be",
		"mounthost=a b":                    "option mounthost=a b: must be",
		"mounthost=a\x01b":                 "must be the name or the address of a host",
		"port=-0":                          "option port=-0: must be a number from 0 to 65535",
		"port=":                            "option port=: must be a number from 0 to 65535",
		"port=65536":                       "option port=65536: must be a number from 0 to 65535",
		"port=0x801":                       "option port=0x801: must be a number",
		"port=1_0":                         "option port=1_0: must be a number",
		"port= 1":                          "option port= 1: must be a number",
		"mountport=65536":                  "option mountport=65536: must be a number from 0 to 65535",
		"nlmport=65536":                    "option nlmport=65536: must be a number from 0 to 65535",
		"nconnect=0":                       "option nconnect=0: must be a number from 1 to 64",
		"nconnect=65":                      "option nconnect=65: must be a number from 1 to 64",
		"timeo=6001":                       "option timeo=6001: must be tenths of a second",
		"timeo=-1":                         "option timeo=-1: must be tenths of a second",
		"retrans=1001":                     "option retrans=1001: must be a number from 0 to 1000",
		"retrans=-1":                       "option retrans=-1: must be a number from 0 to 1000",
		"retry=1048577":                    "option retry=1048577: must be minutes from 0 to 1048576",
		"rsize=0":                          "option rsize=0: must be a number from 1 to 2147483647",
		"wsize=2147483648":                 "option wsize=2147483648: must be a number from 1 to 2147483647",
		"wsize=1M":                         "option wsize=1M: must be a number",
		"actimeo=1073741825":               "option actimeo=1073741825: must be seconds from 0 to 1073741824",
		"rsize=99999999999999999999":       "must be a number from 1 to 2147483647",
		"memory=16777215":                  "option memory=16777215: must be a size of at least 16M",
		"memory=":                          "option memory=: must be a size",
		"memory=99999999999999999G":        "must be a size",
		"uid=-1":                           "option uid=-1: must be a number",
		"gid=+1":                           "option gid=+1: must be a number",
		"gid=4294967296":                   "option gid=4294967296: must be a number",
		"uid=1,uid=2":                      "options uid=1 and uid=2 contradict each other",
		"proto=":                           "option proto=: must be rdma, tcp or auto",
		"proto=RDMA":                       "option proto=RDMA: must be rdma, tcp or auto",
		"proto=auto,rdma":                  "options proto=auto and rdma contradict each other",
		"proto=tcp,proto=rdma":             "options proto=tcp and proto=rdma contradict each other",
		"sec=":                             "option sec=: must be sys, krb5",
		"sec=sys6":                         "option sec=sys6: must be sys, krb5",
		"lookupcache=pos,lookupcache=none": "options lookupcache=pos and lookupcache=none contradict each other",
		"local_lock=posix,nolock":          "options nolock and local_lock=posix contradict each other",
		"noac,actimeo=1":                   "options noac and actimeo=1 contradict each other",
		"acdirmax=6,actimeo=5":             "options actimeo=5 and acdirmax=6 contradict each other",
		"acdirmin=9,acdirmax=8":            "options acdirmin=9 and acdirmax=8 contradict each other: the minimum",
		`context=a"b`:                      "the quote is not closed",
		`context=a"b"c`:                    "must be a label such as",
		"context=a\x00b":                   "must be a label such as",
		"context=a,context=b":              "options context=a and context=b contradict each other",
		"=":                                `unknown option ""`,
		"=ro":                              `unknown option ""`,
		"RO":                               `unknown option "RO"`,
	} {
		wantMistake(t, in, want)
	}
}
