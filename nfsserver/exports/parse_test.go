// Parsing: exports(5)'s own examples, the grammar, and mistakes with their positions.

package exports_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// show returns a parsed file as text, with one line for each client.
func show(f *exports.File) string {
	var b strings.Builder
	for _, x := range f.Exports {
		for _, c := range x.Clients {
			fmt.Fprintf(&b, "%s %s %s", x.Path, c.Spec, &c.Options)
			if w := x.Whole; w != (exports.Whole{}) {
				fmt.Fprintf(&b, " %+v", w)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

const rest = ",sync,secure,root_squash"

// TestManualsExamples: the example in exports(5) is parsed, except its lines with netgroups, which
// are refused.
func TestManualsExamples(t *testing.T) {
	for line, want := range map[string]string{
		"/               master(rw) trusty(rw,no_root_squash)":             "/ master rw" + rest + "\n/ trusty rw,sync,secure,no_root_squash\n",
		"/projects       proj*.local.domain(rw)":                           "/projects proj*.local.domain rw" + rest + "\n",
		"/home/joe       pc001(rw,all_squash,anonuid=150,anongid=100)":     "/home/joe pc001 rw" + rest + ",all_squash,anonuid=150,anongid=100\n",
		"/pub            *(ro,insecure,all_squash)":                        "/pub * ro,sync,insecure,root_squash,all_squash\n",
		"/foo            2001:db8:9:e54::/64(rw) 192.0.2.0/24(rw)":         "/foo 2001:db8:9:e54::/64 rw" + rest + "\n/foo 192.0.2.0/24 rw" + rest + "\n",
		"/build          buildhost[0-9].local.domain(rw)":                  "/build buildhost[0-9].local.domain rw" + rest + "\n",
		"/usr            *.local.domain(ro) @trusted(rw)":                  "f:1:36: netgroups such as @trusted are not supported: name hosts or networks",
		"/srv/www        -sync,rw server @trusted @external(ro)":           "f:1:33: netgroups such as @trusted are not supported: name hosts or networks",
		"/srv/www        -sync,rw server trusted external(ro)":             "/srv/www server rw" + rest + "\n/srv/www trusted rw" + rest + "\n/srv/www external ro" + rest + "\n",
		"/foo 192.168.0.0/255.255.252.0(rw) 192.168.0.0/23(ro,sec=sys)":    "/foo 192.168.0.0/255.255.252.0 rw" + rest + "\n/foo 192.168.0.0/23 ro" + rest + ",sec=sys\n",
		"/pub  *(ro,insecure,all_squash,anonuid=-2,no_subtree_check,sync)": "/pub * ro,sync,insecure,root_squash,all_squash,anonuid=4294967294,anongid=65534\n",
	} {
		f, err := exports.Parse("f", []byte(line+"\n"))
		got := fmt.Sprint(err)
		if err == nil {
			got = show(f)
		}
		if got != want {
			t.Errorf("%s\n got %q\nwant %q", line, got, want)
		}
	}
}

func TestGrammar(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"# nothing\n\n  \t\n#":    "",
		"/a b":                    "/a b ro" + rest + "\n",
		"/a b # c(rw)\n":          "/a b ro" + rest + "\n",
		"/a b\r\n/c d\r\n":        "/a b ro" + rest + "\n/c d ro" + rest + "\n",
		"\"/with blank\" b\n":     "/with blank b ro" + rest + "\n",
		"/with\" blank\"s b\n":    "/with blanks b ro" + rest + "\n",
		`/with\040blank b` + "\n": "/with blank b ro" + rest + "\n",
		`/a\377 b`:                "/a\xff b ro" + rest + "\n",
		`"/a\134\"` + "\n":        "",
		`/a#b c` + "\n":           "/a#b c ro" + rest + "\n",
		// comments and continued lines, as exportfs(8) parses them
		"/a b # x \\\n/c d":        "/a b ro" + rest + "\n/c d ro" + rest + "\n",
		"# /a b \\\r\n/c d":        "/c d ro" + rest + "\n",
		"/a \\\n  b(rw) \\\r\n c":  "/a b rw" + rest + "\n/a c ro" + rest + "\n",
		"/a -rw b -insecure c(ro)": "/a b rw" + rest + "\n/a c ro,sync,insecure,root_squash\n",
		"/a/ b\n/a c(rw)\n":        "/a b ro" + rest + "\n/a c rw" + rest + "\n",
		"//a///b c":                "/a/b c ro" + rest + "\n",
		"/a b(no_acl) c(acl)":      "/a b ro" + rest + ",no_acl\n/a c ro" + rest + "\n",
		"/a ::1(async) fe80::/10":  "/a ::1 ro,async,secure,root_squash\n/a fe80::/10 ro" + rest + "\n",
		"/a *(crossmnt,fsid=7)":    "/a * ro" + rest + " {CrossMounts:true NoHide:false SubtreeCheck:false HasFSID:true FSID:7}\n",
		"/a *(nohide,fsid=root)":   "/a * ro" + rest + " {CrossMounts:false NoHide:true SubtreeCheck:false HasFSID:true FSID:0}\n",
		"/a *(subtree_check,fsid=00000000-0000-0001-0000-000000000002)": "/a * ro" + rest + " {CrossMounts:false NoHide:false SubtreeCheck:true HasFSID:true FSID:3}\n",
	} {
		f, err := exports.Parse("f", []byte(text))
		if want == "" && strings.HasPrefix(text, `"`) {
			if err == nil {
				t.Errorf("%q was taken", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := show(f); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestMistakesHaveTheirPlace(t *testing.T) {
	const uuid = "00112233445566778899aabbccddeeff"
	for text, want := range map[string]string{
		"/a b\nc d":                       "2:1: \"c\" is not an absolute",
		"/a":                              "1:1: /a has no clients",
		"/a -rw":                          "1:1: /a has no clients",
		"\n  /a (rw)":                     "2:6: options without a client",
		"/a b (rw)":                       "1:6: a blank before the parenthesis: remove it, as in b(rw); options without",
		"/a b(rw, sync)":                  "1:9: a blank inside the parentheses: write the options without blanks, such as (rw,sync)",
		"/a b(rw sync)":                   "1:8: options are separated",
		"/a b(rw":                         "1:8: options are separated",
		"/a b()":                          "1:6: an option is missing here: write one, such as ro or rw",
		"/a b(rw)c(ro)":                   "1:9: a blank is missing",
		"/a - b":                          "1:5: an option is missing here: a dash",
		"/a -rw(ro) b":                    "1:5: there is no option \"rw(ro)\"",
		"/a b(rw,ro)":                     "1:9: ro stands beside rw",
		"/a b(root_squash,no_root_squash": "1:18: no_root_squash stands beside",
		"/a b(acl,rw,no_acl)":             "1:13: no_acl stands beside acl",
		"/a b(pnfs)":                      "1:6: option pnfs is not supported",
		"/a b(rw,security_label)":         "1:9: option security_label is not supported",
		"/a b(refer=/x@y)":                "1:6: option refer is not supported",
		"/a b(noexec)":                    "1:6: there is no option \"noexec\": nfsrdma-exports(5) lists the options",
		"/a b(no_root_sqash)":             "1:6: there is no option \"no_root_sqash\": did you mean no_root_squash?",
		"/a b c (rw)":                     "1:8: a blank before the parenthesis: remove it, as in c(rw);",
		"/a b\n/a (rw)":                   "2:4: options without a client: write one directly before them",
		"/a b(rw=1)":                      "1:6: option rw takes no value",
		"/a b(anonuid)":                   "1:6: the value of anonuid is missing: write anonuid=UID",
		"/a b(anonuid=x)":                 "1:14: anonuid=x: must be a number",
		"/a b(anongid=4294967295)":        "1:14: anongid=4294967295: must be a number",
		"/a b(anongid=-1)":                "1:14: anongid=-1: must be a number",
		"/a b(fsid=-1)":                   "1:11: fsid=-1: must be a number",
		// a half UUID
		"/a b(fsid=00ff00ff00ff00ff)":          "1:11: fsid=00ff00ff00ff00ff: must be a number",
		"/a b(fsid=" + uuid + "x)":             "1:11: fsid=" + uuid + "x: must be a number",
		"/a @g":                                "1:4: netgroups such as @g",
		"/a gss/krb5(rw)":                      "1:4: gss/krb5 is not supported",
		"/a =public":                           "1:4: =public is not supported",
		"/a 10.0.0.300":                        "1:4: 10.0.0.300 is not an address",
		"/a 192.168.*":                         "1:4: wildcards do not match addresses",
		"/a 10.0.0.0/33":                       "1:13: the length of the network must be",
		"/a 10.0.0.0/":                         "1:13: the length of the network must be",
		"/a ::/129":                            "1:7: the length of the network must be",
		"/a ::/255.0.0.0":                      "1:7: the length of the network must be",
		"/a 10.0.0.0/255.0.255.0":              "1:13: 255.0.255.0 is not a netmask",
		"/a host/24":                           "1:4: host is not an address",
		"/a [2001:db8::5]/64(rw)":              "1:4: write the address without brackets: 2001:db8::5/64",
		"/a [2001:db8::5]":                     "1:4: write the address without brackets: 2001:db8::5",
		"/a [b]/24":                            "1:4: [b] is not an address",
		"/a fe80::1%eth0":                      "1:4: fe80::1%eth0: write the address without",
		"/a fe80::%eth0/64":                    "1:4: fe80::%eth0 is not an address",
		"/a ::ffff:10.0.0.0/104":               "1:4: ::ffff:10.0.0.0 is not an address",
		"/a ::ffff:10.0.0.1":                   "1:4: ::ffff:10.0.0.1: write the address without",
		"/a b[":                                "1:4: b[: a list of characters",
		"/a b]":                                "1:4: \"b]\" is neither",
		"/a b!":                                "1:4: \"b!\" is neither",
		"/a b c(rw) B":                         "1:12: B has been given for /a before, at 1:4",
		"/a 10.0.0.7/8\n/a 10.0.0.0/8":         "2:4: 10.0.0.0/8 has been given for /a before, at 1:4",
		"/a b(crossmnt) c":                     "1:16: crossmnt is for the whole",
		"/a b(fsid=1) c(fsid=2)":               "1:14: fsid= is for the whole",
		"/a b(fsid=1)\n/c d(fsid=1)":           "2:4: /a has that fsid= already",
		"/a/../b c":                            "1:1: /a/../b has \"..\" in it",
		"/a/./b c":                             "1:1: /a/./b has \".\" in it",
		"\"/a b":                               "1:1: this quote is not closed",
		"/a\\x b":                              "1:3: a backslash stands before",
		"/a\\00. b":                            "1:3: a backslash stands before",
		"/a\\118 b":                            "1:3: a backslash stands before",
		"/a\\000 b":                            "1:3: \\000 is not a byte",
		"/a\\777 b":                            "1:3: \\777 is not a byte",
		"/a b\x00":                             "1:5: a NUL byte",
		"\x00":                                 "1:1: a NUL byte",
		"/" + strings.Repeat("a", 1024) + " b": "1:1: a path of 1025 bytes",
	} {
		wantMistake(t, text, want)
	}
}

// wantMistake checks the first mistake of a text: its position, and the start of its message.
func wantMistake(t *testing.T, text, want string) {
	t.Helper()
	_, err := exports.Parse("f", []byte(text))
	var e *exports.Error
	switch {
	case err == nil:
		t.Errorf("%q: no error, want %q", text, want)
	case !errors.As(err, &e):
		t.Errorf("%q: %v, of type %T", text, err, err)
	case !strings.HasPrefix(err.Error(), "f:"+want):
		t.Errorf("%q: %v, want %q", text, err, want)
	case strings.Contains(err.Error(), "\n"):
		t.Errorf("%q: more than one line: %v", text, err)
	}
}

// TestOptionsThatContradict: two values for one field are a mistake; one value in two forms is not.
func TestOptionsThatContradict(t *testing.T) {
	for text, want := range map[string]string{
		"/a b(anonuid=7,anonuid=8)": "1:16: anonuid=8 stands beside anonuid=7",
		"/a b(rw,ro,rw)":            "1:9: ro stands beside rw",
		"/a b(fsid=1,fsid=root)":    "1:13: fsid=root stands beside fsid=1",
	} {
		wantMistake(t, text, want)
	}
	for text, want := range map[string]string{
		"/srv b(no_auth_nlm,insecure_locks,no_wdelay,rw,rw)":          "/srv b rw" + rest + "\n",
		"/srv b(auth_nlm,secure_locks,anonuid=-2,anonuid=4294967294)": "/srv b ro" + rest + ",anonuid=4294967294,anongid=65534\n",
		"/srv b(fsid=0,fsid=root)":                                    "/srv b ro" + rest + " {CrossMounts:false NoHide:false SubtreeCheck:false HasFSID:true FSID:0}\n",
	} {
		f, err := exports.Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := show(f); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

// TestLinesOfExportfs: exportfs -v's lines are accepted unchanged, and all mistakes in a Linux file
// are listed at once.
func TestLinesOfExportfs(t *testing.T) {
	const options = "(sync,wdelay,hide,no_subtree_check,sec=sys,rw,secure,root_squash,no_all_squash)\n"
	for text, want := range map[string]string{
		"/srv          \t10.0.0.0/24" + options:                       "/srv 10.0.0.0/24 rw" + rest + ",sec=sys\n",
		"/srv/long/path/to/data\n\t\t<world>" + options:               "/srv/long/path/to/data * rw" + rest + ",sec=sys\n",
		"/srv/long/path/to/data\n\t\tpc7.example.org" + options:       "/srv/long/path/to/data pc7.example.org rw" + rest + ",sec=sys\n",
		"/srv b(rw,no_auth_nlm,no_pnfs)\n/c d(insecure_locks)":        "/srv b rw" + rest + "\n/c d ro" + rest + "\n",
		"/long/path\n\t\t*(rw)\n/other\n\t\t*(ro,wdelay)\n\n/x y(rw)": "/long/path * rw" + rest + "\n/other * ro" + rest + "\n/x y rw" + rest + "\n",
	} {
		f, err := exports.Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := show(f); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
	for _, text := range []string{"/a\n\t\t/b(rw)\n", "/a\n\t\t# b\n", "/a\n\t\t\n", "/a\n\t\t\"b\" c", "/a\n\tb(rw)", "/a\n\t\t"} {
		if _, err := exports.Parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f:1:1: /a has no clients") {
			t.Errorf("%q: %v, want a directory without clients", text, err)
		}
	}
}

// TestAllMistakes: ParseAll returns every mistake in each line, and none that only a mistake in
// another line causes.
func TestAllMistakes(t *testing.T) {
	for text, want := range map[string][]string{
		"/a b\n/c d":                                                     nil,
		"/a b(bad) c(worse)\n/c d(rw)\nx y\n/e":                          {"1:6", "1:13", "3:1", "4:1"},
		"/a b(bad)\\\n c(worse) \\\r\n # x\n/d":                          {"1:6", "2:4", "4:1"},
		"/a @b(rw,bad) c(pnfs,anonuid=x) d\n/e -bad f":                   {"1:4", "1:10", "1:17", "1:30", "2:5"},
		"/a b # x \\\n/c d(bad)\n":                                       {"2:6"},
		"/a b(crossmnt,bad)\n/a c(ro)\n/d e(fsid=1,bad)\n/f g(fsid=1)\n": {"1:15", "3:13"},
		"/a b(rw,ro,rw,bad)":                                             {"1:9", "1:15"},
		"\"/a b\n/c d(rw)\n/c d(ro)\n":                                   {"1:1", "3:4"},
		"/a b(rw)c \\\n d(bad) \\\r\n e(worse)\n/f":                      {"1:9", "4:1"},
		"/a\\": {"1:3"},
	} {
		f, mistakes := exports.ParseAll("f", []byte(text))
		var got []string
		for _, err := range mistakes {
			place, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "f:"), ": ")
			got = append(got, place)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, mistakes, want)
		}
		if (f == nil) != (want != nil) {
			t.Errorf("%q: file %v, want one only without mistakes", text, f)
		}
		first := error(nil)
		if len(mistakes) > 0 {
			first = mistakes[0]
		}
		if _, err := exports.Parse("f", []byte(text)); fmt.Sprint(err) != fmt.Sprint(first) {
			t.Errorf("%q: %v, want %v", text, err, first)
		}
	}
}
