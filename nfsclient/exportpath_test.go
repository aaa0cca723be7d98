// From a path to its export.

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
		if wantOK := want[0] != ""; ok != wantOK {
			t.Errorf("%s: in an export %v, want %v", p, ok, wantOK)
		}
		if got := [2]string{dir, rest}; ok && got != want {
			t.Errorf("%s: got %q, want %q", p, got, want)
		}
	}
	dir, rest, ok := splitExport("/a/../b/", []string{"/", "/c"})
	if got, want := [2]string{dir, rest}, [2]string{"/", "a/../b/"}; !ok || got != want {
		t.Errorf("below an exported root: got %q, %v, want %q", got, ok, want)
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
