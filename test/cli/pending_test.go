// Cases that are known not to pass yet.

package cli

import (
	"fmt"
	"os"
	"strings"
)

const pendingFile = "pending.txt"

// readPending gives the cases of testdata/pending.txt, each line one, as root/NAME or user/NAME; one behind ! is not even tried.
func readPending(cases []*testCase) (map[string]bool, error) {
	known := map[string]bool{}
	for _, c := range cases {
		known["root/"+c.name], known["user/"+c.name] = true, true
	}
	data, err := os.ReadFile("testdata/" + pendingFile)
	if os.IsNotExist(err) {
		return nil, nil
	}
	pending := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		name := strings.TrimSpace(line)
		if name == "" {
			continue
		}
		if !known[strings.TrimPrefix(name, "!")] {
			return nil, fmt.Errorf("testdata/%s: there is no case %s", pendingFile, name)
		}
		pending[name] = true
	}
	return pending, err
}
