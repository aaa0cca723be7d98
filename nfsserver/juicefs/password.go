// Passwords in URLs of metadata services, which must not appear in logs.

package juicefs

import (
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/sirupsen/logrus"
)

// hidden replaces a password.
const hidden = "****"

// inQuery matches a password among a URL's parameters, which PostgreSQL's driver also accepts.
var inQuery = regexp.MustCompile(`([?&](?:ssl)?password=)[^&\s"]*`)

// Label returns a metadata service's URL without its password.
func Label(url string) string {
	return inQuery.ReplaceAllString(utils.RemovePassword(url), "${1}"+hidden)
}

// passwordOf returns the text between the user and the host of a URL, which may be malformed: a "@"
// in a password is not always escaped.
func passwordOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return ""
	}
	_, password, _ := strings.Cut(rest[:at], ":")
	return password
}

// A passwordSet has the passwords of all volumes opened by this process.
type passwordSet struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

var passwords passwordSet

// add records the password of a URL, and the one that JuiceFS inserts from the environment.
func (s *passwordSet) add(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	escaped := strings.TrimPrefix(url.UserPassword("", os.Getenv("META_PASSWORD")).String(), ":")
	for _, p := range []string{passwordOf(at), escaped} {
		if p != "" {
			s.list = append(s.list, p)
		}
	}
}

// hide removes the passwords from a message. JuiceFS quotes an unparsable URL, and the URL parser
// quotes the faulty part. With an unescaped "%", "#" or "/" in the password that is a part of the
// password, so hide cuts the end of such a message.
func (s *passwordSet) hide(message string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.list {
		message = strings.ReplaceAll(message, ":"+p+"@", ":"+hidden+"@")
	}
	if before, _, ok := strings.Cut(message, ": parse \""); ok {
		message = before + ": it is no URL (in a password a percent sign is %25, @ is %40, / is %2F, # is %23)"
	}
	return inQuery.ReplaceAllString(message, "${1}"+hidden)
}

// A passwordHook keeps passwords out of JuiceFS's log.
type passwordHook struct{}

func (passwordHook) Levels() []logrus.Level { return logrus.AllLevels }

func (passwordHook) Fire(e *logrus.Entry) error {
	e.Message = passwords.hide(e.Message)
	return nil
}
