// Passwords of metadata services do not appear in logs and errors.

package juicefs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/juicedata/juicefs/pkg/utils"
)

// TestPasswordsAreHidden: passwords are hidden even in URLs with a mistake, which JuiceFS quotes
// unchanged.
func TestPasswordsAreHidden(t *testing.T) {
	tameLogs()
	log := utils.GetLogger("juicefs")
	var told bytes.Buffer
	before := log.Out
	log.SetOutput(&told)
	defer log.SetOutput(before)
	for name, url := range map[string]string{
		"a database that is no number":    "redis://:Hush4me@127.0.0.1:1/vol",
		"a user, and no number":           "redis://me:Hush4me@127.0.0.1:1/vol",
		"a percent sign":                  "redis://:Hush4me%zz@127.0.0.1:1/1",
		"a number sign":                   "redis://:Hush4me#1@127.0.0.1:1/1",
		"a slash":                         "redis://:Hush4me/1@127.0.0.1:1/1",
		"an at sign":                      "redis://:Hush4me@2%zz@127.0.0.1:1/1",
		"PostgreSQL's, and no port":       "postgres://me:Hush4me@127.0.0.1:port/db",
		"PostgreSQL's, among the options": "postgres://me@127.0.0.1:port/db?password=Hush4me",
	} {
		t.Run(name, func(t *testing.T) {
			told.Reset()
			_, err := Name(url)
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, text := range []string{err.Error(), told.String(), Label(url)} {
				if strings.Contains(text, "Hush4me") {
					t.Errorf("tells the password: %s", text)
				}
			}
			if told.Len() == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}
