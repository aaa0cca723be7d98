// Addresses, numbers, names and sizes at their limits.

package exports_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// TestNetworkEdges: a network's first and last addresses match it, and the addresses next to these
// do not. A network matches only its own address family.
func TestNetworkEdges(t *testing.T) {
	for _, c := range []struct{ net, in, out string }{
		{"0.0.0.0/0", "0.0.0.0 255.255.255.255 ::ffff:10.0.0.1", ":: ::1 ::a00:1 64:ff9b::a00:1"},
		{"10.0.0.1/0", "0.0.0.0 255.255.255.255", "::"},
		{"10.0.0.1/0.0.0.0", "0.0.0.0 255.255.255.255", "::"},
		{"128.0.0.0/1", "128.0.0.0 255.255.255.255", "0.0.0.0 127.255.255.255"},
		{"10.0.0.0/128.0.0.0", "0.0.0.0 127.255.255.255", "128.0.0.0"},
		{"10.0.0.8/31", "10.0.0.8 10.0.0.9", "10.0.0.7 10.0.0.10"},
		{"10.0.0.8/255.255.255.254", "10.0.0.8 10.0.0.9", "10.0.0.7 10.0.0.10"},
		{"10.0.0.8/32", "10.0.0.8 ::ffff:10.0.0.8", "10.0.0.7 10.0.0.9 ::a00:8"},
		{"10.0.0.8/255.255.255.255", "10.0.0.8", "10.0.0.7 10.0.0.9"},
		{"10.0.0.0/010", "10.0.0.0 10.63.255.255", "9.255.255.255 10.64.0.0"}, // decimal, not octal
		{"10.0.0.8", "10.0.0.8 ::ffff:a00:8", "10.0.0.7 10.0.0.9 ::a00:8"},
		{"::/0", ":: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "0.0.0.0 10.0.0.1 ::ffff:10.0.0.1"},
		{"8000::/1", "8000:: ffff::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2001:db8::/127", "2001:db8:: 2001:db8::1", "2001:db8::2 2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2001:db8::1/128", "2001:db8::1 2001:DB8:0::1", "2001:db8:: 2001:db8::2"},
		{"2001:DB8::1", "2001:db8::1", "2001:db8::2"},
		{"fe80::1", "fe80::1 fe80::1%eth0", "fe80::2%eth0"},
		{"*", "0.0.0.0 :: ::ffff:10.0.0.1", ""},
	} {
		x := modelMust(t, "/a "+c.net)
		for list, want := range map[string]string{c.in: c.net + " ro" + rest, c.out: "none"} {
			for addr := range strings.FieldsSeq(list) {
				if got := answer(x.Match(netip.MustParseAddr(addr), nil)); got != want {
					t.Errorf("%s from %s: %s, want %s", c.net, addr, got, want)
				}
			}
		}
	}
}

// TestAddressesAreWrittenInOneWay: ambiguous forms of addresses are mistakes.
func TestAddressesAreWrittenInOneWay(t *testing.T) {
	for spec, want := range map[string]string{
		"010.0.0.1": "010.0.0.1 is not an address", // some programs read this as octal
		// some programs read this as 10.0.0.0, and others as 10.0.0.0/24
		"10.0.0":               "10.0.0 is not an address",
		"167772161":            "167772161 is not an address",
		"10.0.0.1.":            "10.0.0.1. is not an address",
		"10.0.0.0-10.0.0.9":    "10.0.0.0-10.0.0.9 is not an address",
		"10.0.0.?":             "wildcards do not match addresses",
		"1[0-9].0.0.1":         "wildcards do not match addresses",
		"2001:db8::*":          `"2001:db8::*" is neither`,
		"10.0.0.0/-1":          "the length of the network must be",
		"10.0.0.0/+8":          "the length of the network must be",
		"10.0.0.0/ 8":          "the length of the network must be",
		"10.0.0.0/8/8":         "the length of the network must be",
		"10.0.0.0/0x8":         "the length of the network must be",
		"10.0.0.0/256":         "the length of the network must be",
		"10.0.0.0/264":         "the length of the network must be",
		"10.0.0.0/ffff::":      "the length of the network must be",
		"10.0.0.0/0.0.0.255":   "0.0.0.255 is not a netmask",
		"10.0.0.0/255.255.0.1": "255.255.0.1 is not a netmask",
		"/8":                   " is not an address",
		"::ffff:0:0/96":        "::ffff:0:0 is not an address",
		"::ffff:a00:1":         "write the address without a zone",
		"[::1]":                "write the address without brackets: ::1",
		"[10.0.0.1]":           "write the address without brackets: 10.0.0.1",
		".":                    `"." is neither`,
		"!b":                   `"!b" is neither`,
		"b,c":                  `"b,c" is neither`,
		"bücher.example":       `"bücher.example" is neither`,
		`"b"`:                  `"\"b\"" is neither`,
		"b]c":                  `"b]c" is neither`,
		"b^c":                  `"b^c" is neither`,
		"[z-a].x]":             "",
		"**":                   "",
		"*.":                   "",
		"b_c.x-y":              "",
		"[^ab]*.x":             "",
		"[]":                   "[]: a list of characters",
		"[a-]":                 "[a-]: a list of characters",
		"*[":                   "*[: a list of characters",
	} {
		_, err := exports.Parse("f", []byte("/a "+spec+"\n"))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v, want no error", spec, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

// TestNamesHaveNoCase: hosts, wildcards, and character lists in wildcards ignore case.
func TestNamesHaveNoCase(t *testing.T) {
	for spec, addr := range map[string]string{
		"A.X": "10.0.0.1", "a.X.": "10.0.0.1", "*.X": "10.0.0.2", "[A-B].x": "10.0.0.2", "[^A].X": "10.0.0.2", "?B.X.": "10.0.0.3",
	} {
		x := modelMust(t, "/a "+spec)
		if got, want := answer(x.Match(netip.MustParseAddr(addr), modelResolver{})), spec+" ro"+rest; got != want {
			t.Errorf("%s from %s: %s, want %s", spec, addr, got, want)
		}
	}
	for _, twice := range []string{"a.x A.X", "a.x a.x.", "*.x *.X", "[a-b].x [A-B].x", "10.0.0.1/8 10.9.9.9/255.0.0.0", "2001:db8::1 2001:DB8:0::1", "* <world>"} {
		text := "/a " + twice
		if _, err := exports.Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), "has been given for /a before, at 1:4") {
			t.Errorf("%q: %v, want that it has been given before", text, err)
		}
	}
	for _, apart := range []string{"a.x a.x.y", "10.0.0.1 10.0.0.1/32", "10.0.0.0/8 10.0.0.0/9", "* **", "a?.x a*.x", "0.0.0.0/0 ::/0"} {
		if x := modelMust(t, "/a "+apart); len(x.Clients) != 2 {
			t.Errorf("%s: %d clients, want 2", apart, len(x.Clients))
		}
	}
}

// TestNumbers: users and groups are decimal, with 32 bits; a larger number is not truncated.
func TestNumbers(t *testing.T) {
	for value, want := range map[string]uint32{"0": 0, "-0": 0, "1": 1, "010": 10, "+5": 5, "4294967294": 1<<32 - 2, "-2": 1<<32 - 2, "-2147483648": 1 << 31, "65534": 65534} {
		for _, name := range []string{"anonuid", "anongid"} {
			o := modelMust(t, fmt.Sprintf("/a b(%s=%s)", name, value)).Clients[0].Options
			got := map[string]uint32{"anonuid": o.AnonUID, "anongid": o.AnonGID}
			if got[name] != want {
				t.Errorf("%s=%s: %d, want %d", name, value, got[name], want)
			}
			delete(got, name)
			for other, id := range got {
				if id != 65534 {
					t.Errorf("%s=%s: %s is %d, want 65534", name, value, other, id)
				}
			}
		}
	}
	for _, value := range []string{"-1", "4294967295", "4294967296", "4294967297", "18446744073709551616", "-2147483649", "-4294967294", "0x5", "1e3", "1_0", "5.0", "nobody", "٣", "1;"} {
		for _, name := range []string{"anonuid", "anongid"} {
			wantMistake(t, fmt.Sprintf("/a b(%s=%s)", name, value), fmt.Sprintf("1:14: %s=%s: must be a number from 0 to 4294967294", name, value))
		}
	}
}

// TestFSIDs: fsid= accepts numbers in exportfs(8)'s forms, root, and UUIDs with any punctuation.
func TestFSIDs(t *testing.T) {
	for value, want := range map[string]uint64{
		"0": 0, "root": 0, "7": 7, "010": 8, "0x10": 16, "0XfF": 255, "4294967295": 1<<32 - 1,
		"00000000-0000-0001-0000-000000000002": 3, "00000000000000010000000000000002": 3, "00000000:0000:0001:0000:000000000002": 3,
		"80000000000000000000000000000001": 1<<63 | 1, "ABCDEF0000000000abcdef0000000001": 1,
	} {
		w := modelMust(t, "/a b(fsid="+value+")").Whole
		if !w.HasFSID || w.FSID != want {
			t.Errorf("fsid=%s: %+v, want %d", value, w, want)
		}
	}
	for _, value := range []string{"4294967296", "-1", "+7", "08", "0x", "0b1", "0o7", "1_0", "Root", "x", "0000000000000001000000000000000", "000000000000000100000000000000021", "0000000000000001000000000000000200", "0000000000000001000000000000000g"} {
		wantMistake(t, "/a b(fsid="+value+")", "1:11: fsid="+value+": must be a number below 4294967296, root, or a UUID")
	}
	if w := modelMust(t, "/a b").Whole; w.HasFSID {
		t.Errorf("without fsid=: %+v", w)
	}
}

// TestOptionsOverrideTheDefaultsOfTheLine: a client's options replace the same options of the
// line's defaults, and no others.
func TestOptionsOverrideTheDefaultsOfTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"/a -rw,async,anonuid=7 b(ro) c(anonuid=8) d": "/a b ro,async,secure,root_squash,anonuid=7,anongid=65534\n/a c rw,async,secure,root_squash,anonuid=8,anongid=65534\n" +
			"/a d rw,async,secure,root_squash,anonuid=7,anongid=65534\n",
		"/a b -rw c":                        "/a b ro" + rest + "\n/a c rw" + rest + "\n",
		"/a -rw b -ro c -rw d":              "/a b rw" + rest + "\n/a c ro" + rest + "\n/a d rw" + rest + "\n",
		"/a -no_root_squash b\n/a c\n/d e":  "/a b ro,sync,secure,no_root_squash\n/a c ro" + rest + "\n/d e ro" + rest + "\n",
		"/a -all_squash b(no_all_squash)":   "/a b ro" + rest + "\n",
		"/a -no_acl b(acl) c":               "/a b ro" + rest + "\n/a c ro" + rest + ",no_acl\n",
		"/a b(all_squash,no_root_squash)":   "/a b ro,sync,secure,no_root_squash,all_squash\n",
		"/a -crossmnt b c(crossmnt)":        "/a b ro" + rest + " {CrossMounts:true NoHide:false SubtreeCheck:false HasFSID:false FSID:0}\n/a c ro" + rest + " {CrossMounts:true NoHide:false SubtreeCheck:false HasFSID:false FSID:0}\n",
		"/a -crossmnt,fsid=7 b(nocrossmnt)": "/a b ro" + rest + " {CrossMounts:false NoHide:false SubtreeCheck:false HasFSID:true FSID:7}\n",
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
	for text, want := range map[string]string{
		"/a -crossmnt b c(nocrossmnt)": "1:16: crossmnt is for the whole",
		"/a -nohide b c(hide)":         "1:14: nohide is for the whole",
		"/a b\n/a c(subtree_check)":    "2:4: subtree_check is for the whole",
		// without a number, and with the number 0
		"/a b\n/a c(fsid=0)":            "2:4: fsid= is for the whole",
		"/a b(fsid=0)\n/a c":            "2:4: fsid= is for the whole",
		"/a b(fsid=0)\n/c d(fsid=root)": "2:4: /a has that fsid= already",
	} {
		wantMistake(t, text, want)
	}
}

// TestSizes: paths may have 1024 bytes, lines and files any length. The position of a mistake is
// right even at their end.
func TestSizes(t *testing.T) {
	if x := modelMust(t, "/"+strings.Repeat("a", 1023)+" b"); len(x.Path) != 1024 {
		t.Errorf("a path of %d bytes, want 1024", len(x.Path))
	}
	var b strings.Builder
	b.WriteString("/a")
	const n = 20000
	for i := range n {
		fmt.Fprintf(&b, " \\\n 10.%d.%d.%d(rw)", i>>16, i>>8&255, i&255)
	}
	long := b.String()
	x := modelMust(t, long)
	if len(x.Clients) != n {
		t.Fatalf("%d clients, want %d", len(x.Clients), n)
	}
	if got := answer(x.Match(netip.MustParseAddr("10.0.78.31"), nil)); got != "10.0.78.31 rw"+rest {
		t.Errorf("the last client: %s", got)
	}
	wantMistake(t, long+" c(bad)", fmt.Sprintf("%d:19: there is no option", n+1))
	wantMistake(t, long+"\n# x\n/a 10.0.0.0", fmt.Sprintf("%d:4: 10.0.0.0 has been given for /a before, at 2:2", n+3))
	wantMistake(t, strings.Repeat("/a", 1<<20)+" b", "1:1: a path of 2097152 bytes")
	wantMistake(t, "/a b("+strings.Repeat("x", 1<<16)+")", "1:6: there is no option")
}

// TestTheFirstOfMany: however many clients of one kind there are, the first in the file decides.
func TestTheFirstOfMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("/a *(rw)")
	for length := 8; length <= 32; length++ {
		fmt.Fprintf(&b, " 10.0.0.1/%d", (length*7)%25+8) // each length once, unsorted
	}
	x := modelMust(t, b.String())
	first := x.Clients[1].Spec
	if got, want := answer(x.Match(netip.MustParseAddr("10.0.0.1"), nil)), first+" ro"+rest; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBytesThatAreNotSeen: a byte that editors do not show does not become a part of a rule.
func TestBytesThatAreNotSeen(t *testing.T) {
	for text, want := range map[string]string{
		"\ufeff/a b":             "1:1: \"\\ufeff/a\" is not an absolute path",
		"/a b\u00a0(rw)":         "1:4: \"b\\u00a0\" is neither",
		"/a\u00a0b":              "1:1: /a\u00a0b has no clients",
		"/a b\v(rw)":             "1:4: \"b\\v\" is neither",
		"/a b(rw\u200b)":         "1:6: there is no option \"rw\\u200b\"",
		"/a b(rw)\u00a0c":        "1:9: a blank is missing",
		"/a b(\trw)":             "1:6: a blank inside the parentheses",
		"/a b(rw\r\n)":           "1:8: options are separated by commas",
		"/a b(rw,\\\nro)":        "1:9: a blank inside the parentheses",
		"/a b\\\n(rw)":           "2:1: options without a client",
		"/a\\012b c(bad)":        "1:11: there is no option",
		"/a\\012b":               `1:1: /a\012b has no clients`,
		"/a\\033]0;b c\n/x\\033": `2:1: /x\033 has no clients`,
		"/a b\x00\n":             "1:5: a NUL byte",
		"# \x00":                 "1:3: a NUL byte",
		"/a b\n\n/c\\00":         "3:3: a backslash stands before three octal digits",
		"\"/a\\\n\" b":           "1:4: a backslash stands before",
		"\"/a\r\n\" b":           "1:1: this quote is not closed",
		`/a"b c`:                 "1:3: this quote is not closed",
		"/a\\056\\056/b c":       "",
		"/\\056\\056 b":          `1:1: /.. has ".." in it`,
		"/a/\\056/b c":           `1:1: /a/./b has "." in it`,
		"/a b(fsid=0)\n/c d":     "",
		"/a b( rw)":              "1:6: a blank inside the parentheses",
		"/a b(,rw)":              "1:6: an option is missing here",
		"/a b(rw,,ro)":           "1:9: an option is missing here",
		"/a b(rw,)":              "1:9: an option is missing here",
		"/a b(rw))":              "1:9: a blank is missing here",
		"/a b(rw)(ro)":           "1:9: a blank is missing here",
		"/a b(RW)":               "1:6: there is no option \"RW\"",
		"/a b(rw=)":              "1:6: option rw takes no value",
		"/a b(=rw)":              "1:6: an option is missing here",
		"/a -":                   "1:5: an option is missing here: a dash",
		"/a --rw b":              "1:5: there is no option \"-rw\"",
		"/a b -":                 "1:7: an option is missing here: a dash",
		"/a b(nordirplus)":       "1:6: option nordirplus is not supported: clients choose",
		"/a b(reexport=x)":       "1:6: option reexport is not supported: give the export a number",
	} {
		if want != "" {
			wantMistake(t, text, want)
		} else if _, err := exports.Parse("f", []byte(text)); err != nil {
			t.Errorf("%q: %v, want no error", text, err)
		}
	}
}

// TestClientsOfAFile: the parts of a file that other packages use are right.
func TestClientsOfAFile(t *testing.T) {
	f, err := exports.Parse("f", []byte("# x\n/a pc1.x *.x\\\n\t10.0.0.1\n/b *\n/a 10.0.0.0/8\n"))
	if err != nil {
		t.Fatalf("exports.Parse: %v", err)
	}
	for i, want := range []string{"/a 2 [pc1.x *.x 10.0.0.1 10.0.0.0/8]", "/b 4 [*]"} {
		x := f.Exports[i]
		if got := fmt.Sprint(x.Path, " ", x.Line, " ", x.Specs()); got != want {
			t.Errorf("export %d: %s, want %s", i, got, want)
		}
	}
	for i, want := range []string{"pc1.x", "", "", ""} {
		if got := f.Exports[0].Clients[i].Host(); got != want {
			t.Errorf("client %d: host %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"g:2:4: bad", "g:2:10: bad", "g:3:2: bad", "g:5:4: bad"} {
		if got := f.Exports[0].Clients[i].Mistake("g", "bad").Error(); got != want {
			t.Errorf("client %d: %s, want %s", i, got, want)
		}
	}
}

// TestWordsAreThoseOfTheParser: the parser accepts each option in the list, or refuses it with its
// reason.
func TestWordsAreThoseOfTheParser(t *testing.T) {
	values := map[string]string{"anonuid": "=7", "anongid": "=7", "sec": "=sys", "xprtsec": "=tls", "cert": "=a,xprtsec=mtls",
		"ca": "=" + strings.Repeat("0f", 32) + ",xprtsec=mtls", "certid": "=1:2,xprtsec=mtls", "fsid": "=7"}
	for _, w := range exports.Words() {
		x, err := exports.Parse("f", []byte("/a b("+w.Name+values[w.Name]+")"))
		if w.Refused != "" {
			if err == nil || !strings.HasSuffix(err.Error(), w.Refused) {
				t.Errorf("%s: %v, want %s", w.Name, err, w.Refused)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", w.Name, err)
			continue
		}
		if plain := "/a b ro" + rest + "\n"; w.NoEffect && show(x) != plain {
			t.Errorf("%s has no effect: %q, want %q", w.Name, show(x), plain)
		}
	}
}
