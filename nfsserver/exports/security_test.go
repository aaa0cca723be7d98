// Security options: flavors with their access, levels of the channel, certificates, and mistakes.

package exports_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// flavorsOf returns a client's flavors with their access as text, in order.
func flavorsOf(c *exports.Client) string {
	var list []string
	for _, f := range c.Options.Flavors() {
		list = append(list, accessOf(exports.FlavorName(f.Flavor), f.Access))
	}
	return strings.Join(list, " ")
}

// accessOf returns an access as text: its name, and a sign for each right beyond the defaults.
func accessOf(name string, a exports.Access) string {
	for _, of := range []struct {
		on   bool
		sign string
	}{{!a.ReadOnly, "+rw"}, {!a.Secure, "+insecure"}, {a.NoRootSquash, "+root"}, {a.AllSquash, "-all"}} {
		if of.on {
			name += of.sign
		}
	}
	return name
}

// TestFlavorsHaveTheirAccess: options after a sec= apply to its flavors. Options before the first
// sec= apply to all flavors.
func TestFlavorsHaveTheirAccess(t *testing.T) {
	for options, want := range map[string]string{
		"(rw)":                                   "",
		"(sec=sys)":                              "sys",
		"(sec=none,all_squash)":                  "none-all",
		"(rw,sec=krb5)":                          "krb5+rw",
		"(sec=krb5,rw)":                          "krb5+rw",
		"(sec=krb5p:krb5i:krb5:sys:none)":        "krb5p krb5i krb5 sys none",
		"(sec=sys,ro,sec=krb5:krb5i,rw)":         "sys krb5+rw krb5i+rw",
		"(rw,sec=krb5,sec=sys,ro)":               "krb5+rw sys",
		"(rw,insecure,sec=krb5,sec=sys)":         "krb5+rw+insecure sys+rw+insecure",
		"(sec=sys,secure,sec=krb5,insecure)":     "sys krb5+insecure",
		"(sec=sys,all_squash,sec=krb5,rw)":       "sys-all krb5+rw",
		"(sec=krb5,rw,no_root_squash,sec=sys)":   "krb5+rw+root sys",
		"(sec=krb5,rw,sec=sys,rw,sec=none,sync)": "krb5+rw sys+rw none",
	} {
		x := modelMust(t, "/a *"+options+"\n")
		if got := flavorsOf(&x.Clients[0]); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

// TestFlavorsOfDefaults: a client's own options apply to all flavors in the line's defaults. A sec=
// of the client replaces these flavors.
func TestFlavorsOfDefaults(t *testing.T) {
	for line, want := range map[string]string{
		"-sec=krb5,rw b":                                "krb5+rw",
		"-sec=krb5,rw b(ro)":                            "krb5",
		"-sec=sys,ro,sec=krb5,rw b":                     "sys krb5+rw",
		"-sec=sys,ro,sec=krb5,rw b(insecure)":           "sys+insecure krb5+rw+insecure",
		"-sec=sys,ro,sec=krb5,rw b(all_squash)":         "sys-all krb5+rw-all",
		"-sec=krb5 b(sec=sys)":                          "sys",
		"-sec=krb5,rw b(sec=sys)":                       "sys+rw",
		"-sec=krb5,rw b(sec=sys,sec=krb5p)":             "sys+rw krb5p+rw",
		"-rw -sec=krb5 b":                               "krb5+rw",
		"-sec=krb5 -rw b":                               "krb5+rw",
		"-sec=krb5 -rw,sec=krb5i b":                     "krb5i+rw",
		"-sec=krb5 a(sec=sys) b":                        "krb5",
		"-sec=sys,sec=krb5,no_root_squash b(sec=krb5i)": "krb5i",
	} {
		x := modelMust(t, "/a "+line+"\n")
		if got := flavorsOf(&x.Clients[len(x.Clients)-1]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestAccessIsTheFirstFlavors: Options.Access is the access of the first flavor in sec=.
func TestAccessIsTheFirstFlavors(t *testing.T) {
	for options, want := range map[string]string{
		"(sec=sys,ro,sec=krb5,rw)":    "*",
		"(sec=krb5,rw,sec=sys,ro)":    "*+rw",
		"(rw,sec=sys,sec=krb5)":       "*+rw",
		"(sec=sys,rw,insecure)":       "*+rw+insecure",
		"(sec=none,all_squash,async)": "*-all",
	} {
		x := modelMust(t, "/a *"+options+"\n")
		if got := accessOf("*", x.Clients[0].Options.Access); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

// TestSecurityWords: a client's String has its security options, in a form that gives the same
// options when it is parsed again.
func TestSecurityWords(t *testing.T) {
	low := strings.ToLower(strings.ReplaceAll(digest, ":", ""))
	for options, want := range map[string]string{
		"rw":                              "rw" + rest,
		"sec=sys":                         "ro" + rest + ",sec=sys",
		"rw,sec=krb5:krb5i":               "rw" + rest + ",sec=krb5:krb5i",
		"sec=sys,ro,sec=krb5:krb5p,rw":    "ro" + rest + ",sec=sys,ro,secure,root_squash,no_all_squash,sec=krb5:krb5p,rw,secure,root_squash,no_all_squash",
		"xprtsec=none":                    "ro" + rest,
		"xprtsec=none:tls:mtls":           "ro" + rest,
		"xprtsec=tls":                     "ro" + rest + ",xprtsec=tls:mtls",
		"xprtsec=mtls:tls":                "ro" + rest + ",xprtsec=tls:mtls",
		"xprtsec=mtls":                    "ro" + rest + ",xprtsec=mtls",
		"xprtsec=mtls,cert=*.Example.ORG": "ro" + rest + ",xprtsec=mtls,cert=*.example.org",
		"certid=0:4294967294,ca=" + digest + ",xprtsec=mtls": "ro" + rest + ",xprtsec=mtls,ca=" + low + ",certid=0:4294967294",
		"xprtsec=tls,sec=krb5,xprtsec=tls:mtls":              "ro" + rest + ",sec=krb5,xprtsec=tls:mtls",
	} {
		x := modelMust(t, "/a *("+options+")\n")
		got := x.Clients[0].Options.String()
		if got != want {
			t.Errorf("%s\n got %q\nwant %q", options, got, want)
		}
		again := modelMust(t, "/a *("+got+")\n")
		if again.Clients[0].Options != x.Clients[0].Options {
			t.Errorf("%s: parsed again %+v, want %+v", got, again.Clients[0].Options, x.Clients[0].Options)
		}
	}
}

// TestSecurityFields: the fields of Security have the options' values.
func TestSecurityFields(t *testing.T) {
	x := modelMust(t, "/a *(xprtsec=mtls,cert=A.b,certid=7:8,ca="+digest+",sec=krb5i:sys)\n")
	s := &x.Clients[0].Options.Security
	got := fmt.Sprintf("%v %s %v %d %d %v %v %d %s", s.XprtSec, s.Cert, s.HasCertID, s.CertUID, s.CertGID, s.HasCA, s.CA[:2], s.CA[31], s.FlavorNames())
	if want := "mtls a.b true 7 8 true [0 17] 255 krb5i:sys"; got != want {
		t.Errorf("the fields are %s, want %s", got, want)
	}
	if got := new(exports.Security).FlavorNames(); got != "sys:none" {
		t.Errorf("without sec= the flavors are %s, want sys:none", got)
	}
	flavors := s.Flavors()
	flavors[0].Flavor = oncrpc.FlavorDH
	if got := s.FlavorNames(); got != "krb5i:sys" {
		t.Errorf("after a change of the returned list: %s, want krb5i:sys", got)
	}
}

// TestSecurityMistakes: each mistake has its position and a remedy.
func TestSecurityMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"/a b(sec=krb6)":                                 `f:1:10: sec=krb6: "krb6" is none of sys, krb5, krb5i, krb5p, none`,
		"/a b(rw,sec=sys:)":                              `f:1:13: sec=sys:: "" is none of sys, krb5`,
		"/a b(sec=)":                                     "f:1:6: the value of sec is missing: write sec=sys, krb5",
		"/a b(sec=lipkey)":                               "f:1:10: sec=lipkey: of the GSS mechanisms only Kerberos",
		"/a b(sec=spkm3)":                                "f:1:10: sec=spkm3: of the GSS mechanisms only Kerberos",
		"/a b(sec=sys:krb5:sys)":                         "f:1:10: sec=sys:krb5:sys: sys is given twice: leave one out",
		"/a b(sec=sys,sec=krb5:sys)":                     "f:1:18: sec=krb5:sys: sys is given twice",
		"/a b(sec=SYS)":                                  `f:1:10: sec=SYS: "SYS" is none of`,
		"/a b(sec=sys,rw,ro)":                            "f:1:17: ro stands beside rw in one list",
		"/a b(rw,sec=sys,ro)":                            "f:1:17: ro stands beside rw in one list",
		"/a b(sec=sys,rw,sec=krb5,ro,rw)":                "f:1:29: rw stands beside ro in one list",
		"/a b(sync,sec=sys,sec=krb5,async)":              "f:1:28: async stands beside sync in one list",
		"/a b(xprtsec=ssl)":                              `f:1:14: xprtsec=ssl: "ssl" is none of none, tls, mtls`,
		"/a b(xprtsec=tls:tls)":                          "f:1:14: xprtsec=tls:tls: tls is given twice",
		"/a b(xprtsec=tls,xprtsec=mtls)":                 "f:1:18: xprtsec=mtls stands beside xprtsec=tls",
		"/a b(xprtsec)":                                  "f:1:6: the value of xprtsec is missing",
		"/a b(cert=a)":                                   "f:1:4: cert= is for certificates: write xprtsec=mtls beside it",
		"/a b(cert=a,xprtsec=tls:mtls)":                  "f:1:4: cert= is for certificates",
		"/a b(certid=1:2,xprtsec=tls)":                   "f:1:4: certid= is for certificates",
		"/a b(ca=" + digest + ")":                        "f:1:4: ca= is for certificates",
		"/a b(xprtsec=mtls,cert=[a)":                     "f:1:24: cert=[a: a list of characters begins",
		"/a b(xprtsec=mtls,cert=ä)":                      "f:1:24: cert=ä: must be a name in ASCII",
		`/a b(xprtsec=mtls,cert=a\b)`:                    `f:1:24: cert=a\b: must be a name in ASCII`,
		`/a b(xprtsec=mtls,cert=a(b)`:                    `f:1:24: cert=a(b: must be a name in ASCII`,
		"/a b(xprtsec=mtls,ca=00ff)":                     "f:1:22: ca=00ff: must be the SHA-256 digest",
		"/a b(xprtsec=mtls,ca=" + digest + "0)":          "f:1:22: ca=" + digest + "0: must be the SHA-256",
		"/a b(xprtsec=mtls,ca=" + digest + "00)":         "f:1:22: ca=" + digest + "00: must be the SHA-256",
		"/a b(xprtsec=mtls,ca=/ca.pem)":                  "f:1:22: ca=/ca.pem: must be the SHA-256 digest",
		"/a b(xprtsec=mtls,certid=7)":                    "f:1:26: certid=7: must be a user and a group",
		"/a b(xprtsec=mtls,certid=7:x)":                  "f:1:26: certid=7:x: must be a number",
		"/a b(xprtsec=mtls,certid=:7)":                   "f:1:26: certid=:7: must be a number",
		"/a b(xprtsec=mtls,certid=-2:7)":                 "f:1:26: certid=-2:7: must be a number",
		"/a b(xprtsec=mtls,certid=7:-2)":                 "f:1:26: certid=7:-2: must be a number",
		"/a b(xprtsec=mtls,certid=4294967295:7)":         "f:1:26: certid=4294967295:7: must be a number",
		"/a b(xprtsec=mtls,certid=1:2,certid=1:3)":       "f:1:30: certid=1:3 stands beside certid=1:2",
		"/a b\n/b -xprtsec=mtls,cert=x c d(xprtsec=tls)": "f:2:27: cert= is for certificates",
	} {
		_, err := exports.Parse("f", []byte(text))
		if err == nil {
			t.Errorf("%q: no error, want %q", text, want)
			continue
		}
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q\n got %q\nwant %q", text, err, want)
		}
	}
}

// TestAMistakeInSecurityIsTheOnlyOne: a wrong xprtsec= causes no further mistakes about options
// that depend on it.
func TestAMistakeInSecurityIsTheOnlyOne(t *testing.T) {
	_, mistakes := exports.ParseAll("f", []byte("/a b(xprtsec=mtsl,cert=x,certid=1:2)\n"))
	if len(mistakes) != 1 {
		t.Errorf("mistakes %v, want one", mistakes)
	}
}

// TestParseSecurity: values of sec= and xprtsec= can be parsed without the option's name, as flags
// need.
func TestParseSecurity(t *testing.T) {
	for _, of := range []struct{ flavors, channel, want string }{
		{"", "", "sys:none none"},
		{"krb5p:sys", "", "krb5p:sys none"},
		{"", "mtls", "sys:none mtls"},
		{"none", "tls:none", "none none"},
		{"x", "", `sec=x: "x" is none of sys, krb5, krb5i, krb5p, none`},
		{"sys", "x", `xprtsec=x: "x" is none of none, tls, mtls`},
	} {
		s, err := exports.ParseSecurity(of.flavors, of.channel)
		got := fmt.Sprint(s.FlavorNames(), " ", s.XprtSec)
		if err != nil {
			got = err.Error()
		}
		if got != of.want {
			t.Errorf("%q, %q: %s, want %s", of.flavors, of.channel, got, of.want)
		}
	}
}

// TestXprtSecNames: XprtSecNames returns the names of a level and of all levels above.
func TestXprtSecNames(t *testing.T) {
	for least, want := range map[transport.XprtSec]string{
		transport.XprtNone: "none:tls:mtls", transport.XprtTLS: "tls:mtls", transport.XprtMTLS: "mtls",
	} {
		if got := exports.XprtSecNames(least); got != want {
			t.Errorf("%v: %s, want %s", least, got, want)
		}
	}
}

// TestFlavorNames: each word of sec= stands for its own flavor, and other flavors have no word.
func TestFlavorNames(t *testing.T) {
	for name, flavor := range map[string]oncrpc.Flavor{
		"none": oncrpc.FlavorNone, "sys": oncrpc.FlavorSys, "krb5": 390003, "krb5i": 390004, "krb5p": 390005,
		"": oncrpc.FlavorGSS,
	} {
		if got := exports.FlavorName(flavor); got != name {
			t.Errorf("%v: %q, want %q", flavor, got, name)
		}
	}
}

// TestMixedFlavorsAreThoseOfTheManual: in random lists, each flavor gets the access options before
// the first sec=, overridden by those after its own sec=.
func TestMixedFlavorsAreThoseOfTheManual(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 3))
		names := []string{"none", "sys", "krb5", "krb5i", "krb5p"}
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		pairs := [][2]string{{"ro", "rw"}, {"secure", "insecure"}, {"root_squash", "no_root_squash"}, {"no_all_squash", "all_squash"}}
		state := [4]int{}
		var words, want []string
		for i, p := range pairs {
			if r.IntN(4) == 0 {
				state[i] = 1
				words = append(words, p[1])
			}
		}
		common := len(words) > 0
		for len(names) > 0 {
			n := 1 + r.IntN(len(names))
			group := slices.Clone(names[:n])
			names = names[n:]
			mine := state
			words = append(words, "sec="+strings.Join(group, ":"))
			for i, p := range pairs {
				if first := len(want) == 0; r.IntN(3) == 0 && !(first && common) {
					mine[i] = r.IntN(2)
					words = append(words, p[mine[i]])
				}
			}
			for _, name := range group {
				want = append(want, accessOf(name, exports.Access{ReadOnly: mine[0] == 0, Secure: mine[1] == 0, NoRootSquash: mine[2] == 1, AllSquash: mine[3] == 1}))
			}
			if r.IntN(3) == 0 {
				break
			}
		}
		text := "/a *(" + strings.Join(words, ",") + ")\n"
		x := modelMust(t, text)
		if got := flavorsOf(&x.Clients[0]); got != strings.Join(want, " ") {
			t.Fatalf("%s: %q, want %q", text, got, want)
		}
		again := modelMust(t, fmt.Sprintf("/a *(%s)\n", &x.Clients[0].Options))
		if again.Clients[0].Options != x.Clients[0].Options {
			t.Fatalf("%s is printed as %s", text, &x.Clients[0].Options)
		}
	}
}
