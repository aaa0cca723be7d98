// Tests of df, showmount and ping: the tables of df(1), and the JSON forms.

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The numbers are from file systems that df of coreutils 9.1 shows like this.
func TestDfIsThatOfCoreutils(t *testing.T) {
	rows := []dfRow{
		{Filesystem: "/dev/vda", Path: "/", Size: 264212084 << 10, Used: 15223560 << 10, Avail: 80277704 << 10, Files: 16777216, FilesUsed: 632469, FilesFree: 16144747},
		{Filesystem: "proc", Path: "/proc"},
	}
	for _, c := range []struct {
		human, inodes, portable bool
		want                    string
	}{
		{false, false, false, "Filesystem     1K-blocks     Used Available Use% Mounted on\n" +
			"/dev/vda       264212084 15223560  80277704  16% /\n" +
			"proc                   0        0         0    - /proc\n"},
		{true, false, false, "Filesystem      Size  Used Avail Use% Mounted on\n" +
			"/dev/vda        252G   15G   77G  16% /\n" +
			"proc               0     0     0    - /proc\n"},
		{false, true, false, "Filesystem       Inodes  IUsed    IFree IUse% Mounted on\n" +
			"/dev/vda       16777216 632469 16144747    4% /\n" +
			"proc                  0      0        0     - /proc\n"},
		{false, false, true, "Filesystem     1024-blocks     Used Available Capacity Mounted on\n" +
			"/dev/vda         264212084 15223560  80277704      16% /\n" +
			"proc                     0        0         0        - /proc\n"},
	} {
		var b strings.Builder
		writeDf(&b, rows, c.human, c.inodes, c.portable)
		if b.String() != c.want {
			t.Errorf("-h %v -i %v -P %v:\n%s\nwant\n%s", c.human, c.inodes, c.portable, b.String(), c.want)
		}
	}
}

func TestServerCommandsInJSON(t *testing.T) {
	both(t, func(t *testing.T, base string) {
		var df []dfRow
		out, errOut, code := try(t, "df", "--json", base+"/mem", base+"/mem/nothing", base+"/dir")
		if err := json.Unmarshal([]byte(out), &df); err != nil || len(df) != 2 || df[0].Size == 0 || df[0].Filesystem != "127.0.0.1:/mem" || df[1].Path != base+"/dir" {
			t.Errorf("df: %v, %+v", err, df)
		}
		if want := "nfsrdma: df: " + base + "/mem/nothing: No such file or directory\n"; code != 1 || errOut != want {
			t.Errorf("df of nothing: %d, %q", code, errOut)
		}
		var exports []jsonExport
		if err := json.Unmarshal([]byte(nfs(t, "showmount", "--json", base)), &exports); err != nil || len(exports) != 2 || exports[0].Path != "/mem" {
			t.Errorf("showmount: %v, %+v", err, exports)
		}
		var ping pingReport
		if err := json.Unmarshal([]byte(nfs(t, "ping", "--json", "-c", "3", "-i", "0", base)), &ping); err != nil || ping.Count != 3 || ping.Min <= 0 || ping.Min > ping.Max {
			t.Errorf("ping: %v, %+v", err, ping)
		}
	})
}
