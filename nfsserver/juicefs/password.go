// Passwords in the URLs of metadata services, which are for nobody who reads a log.

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

// hidden is what stands for a password.
const hidden = "****"

// inQuery is a password among the parameters of a URL, as PostgreSQL's driver takes it, too.
var inQuery = regexp.MustCompile(`([?&](?:ssl)?password=)[^&\s"]*`)

// Label is the URL of a metadata service without its password.
func Label(url string) string {
	return inQuery.ReplaceAllString(utils.RemovePassword(url), "${1}"+hidden)
}

// passwordOf is what stands between the user and the host of a URL that is possibly none: a "@" in a password is not always escaped.
func passwordOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	at := strings.LastIndex(rest, "@")
	if at < 0 {
		return ""
	}
	_, password, _ := strings.Cut(rest[:at], ":")
	return password
}

// A passwordSet has the passwords of all volumes that this process was asked for.
type passwordSet struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

var passwords passwordSet

// add notes the password of a URL, and the one that JuiceFS puts into it from the environment.
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

// hide takes the passwords out of a message. JuiceFS quotes a URL that it cannot read, and the parser of URLs the part of it that is wrong, which
// is of the password where that has a "%", "#" or "/" that is not escaped: the end of such a message is left out.
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

// A passwordHook has JuiceFS log no passwords.
type passwordHook struct{}

func (passwordHook) Levels() []logrus.Level { return logrus.AllLevels }

func (passwordHook) Fire(e *logrus.Entry) error {
	e.Message = passwords.hide(e.Message)
	return nil
}
