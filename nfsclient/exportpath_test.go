// Tests of the way from a path to its export.

package nfsclient

import "testing"

func TestSplitExport(t *testing.T) {
	exports := []string{"/exp", "/exp/a/nested", "/srv/deep"}
	for p, want := range map[string][2]string{
		"/exp":                    {"/exp", ""},
		"/exp/":                   {"/exp", ""},
		"//exp/.//":               {"/exp", ""},
		"/exp/f":                  {"/exp", "f"},
		"/exp/f/":                 {"/exp", "f/"},
		"/exp//d/../f//":          {"/exp", "d/../f//"},
		"/exp/missing/../f":       {"/exp", "missing/../f"},
		"/exp/../f":               {"/exp", "f"}, // ".." at the root stays there
		"/exp/../../..":           {"/exp", ""},
		"/../exp/f":               {"/exp", "f"},
		"/./srv/../exp/f":         {"/exp", "f"},
		"/srv/deep/../f":          {"/srv/deep", "f"},
		"/exp/a":                  {"/exp", "a"},
		"/exp/a/":                 {"/exp", "a/"},
		"/exp/a/x":                {"/exp", "a/x"},
		"/exp/a/nested":           {"/exp/a/nested", ""},
		"/exp/a/nested/x/..":      {"/exp/a/nested", "x/.."},
		"/exp/a/nested/../x":      {"/exp", "a/x"},
		"/exp/a/nested/../../x/y": {"/exp", "x/y"},
		"/exp/a/../f":             {"/exp", "f"},
		"/exports":                {"", ""},
		"/srv":                    {"", ""},
		"/":                       {"", ""},
		"/none/../exp":            {"", ""},
	} {
		dir, rest, ok := splitExport(p, exports)
		if ok != (want[0] != "") || ok && (dir != want[0] || rest != want[1]) {
			t.Errorf("%s: %q, %q, %v; want %q", p, dir, rest, ok, want)
		}
	}
	if dir, rest, ok := splitExport("/a/../b/", []string{"/", "/c"}); !ok || dir != "/" || rest != "a/../b/" {
		t.Errorf("below an exported root: %q, %q, %v", dir, rest, ok)
	}
}

func TestMountTries(t *testing.T) {
	for p, want := range map[string][]mountTry{
		"/":          {{"/", ""}},
		"/../":       {{"/", ""}},
		"/a/b":       {{"/a/b", ""}, {"/a", "b"}, {"/", "a/b"}},
		"//a/.//b/":  {{"/a/b", ""}, {"/a", ".//b/"}, {"/", "a/.//b/"}},
		"/../a/../b": {{"/", "a/../b"}, {"/a", "../b"}},
	} {
		got := mountTries(p)
		same := len(got) >= len(want)
		for _, w := range want {
			found := false
			for _, g := range got {
				found = found || g == w
			}
			same = same && found
		}
		if !same || got[0] != want[0] {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}
