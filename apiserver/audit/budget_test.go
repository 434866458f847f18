package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/authn"
)

func record(l *audit.Log, id *authn.Identity) {
	r, q := l.Open(), request("/")
	q.Attributes.User = id
	r.Begin(q)
	r.Completed()
}

// told are the annotations of events that stand for others, and how many bytes strangers' events take with them.
func told(t *testing.T, sink *audit.Memory) (words []string, size int) {
	t.Helper()
	for _, e := range sink.Events() {
		if e.User.Username == "ann" {
			continue
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		size += len(line) + 1
		if word := e.Annotations["audit.keelson.dev/left-out"]; word != "" {
			words = append(words, word)
		}
	}
	return words, size
}

// TestStrangers: a flood of requests that nobody authenticated for leaves no more behind than its budget; all others are
// recorded, and how many are missing.
func TestStrangers(t *testing.T) {
	anonymous := &authn.Identity{Name: authn.Anonymous, Groups: []string{authn.GroupUnauthenticated}}
	for name, id := range map[string]*authn.Identity{
		"nobody": nil, "anonymous": anonymous, "an unauthenticated name": {Name: "x", Groups: []string{authn.GroupUnauthenticated}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &audit.Memory{}
				const budget, hours = 20_000, 24
				l := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{Strangers: audit.Budget{Bytes: budget, Every: time.Hour}})
				for range hours * 60 {
					for range 10 {
						record(l, id)
					}
					record(l, &authn.Identity{Name: "ann"})
					time.Sleep(time.Minute)
				}
				if err := l.Flush(); err != nil {
					t.Error(err)
				}
				words, size := told(t, sink)
				if most := budget * (hours + 2); size > most || size < most/2 {
					t.Errorf("%d bytes of strangers, the budget is %d", size, most)
				}
				known, missing := 0, 0
				for _, e := range sink.Events() {
					if e.User.Username == "ann" {
						known++
					}
				}
				for _, word := range words {
					var n int
					if _, err := fmt.Sscanf(word, "%d events of unauthenticated requests left out", &n); err != nil {
						t.Errorf("%s: %v", word, err)
					}
					missing += n
				}
				anonymous := len(sink.Events()) - known - len(words)
				if known != hours*60 || anonymous+missing != hours*600 || int64(missing) != l.Stats().LeftOut {
					t.Errorf("%d of ann, %d of strangers and %d left out, of which the log has counted %d", known, anonymous, missing, l.Stats().LeftOut)
				}
				if len(words) < 2 || len(words) > hours*6+1 {
					t.Errorf("told %d times", len(words))
				}
				if err := l.Flush(); err != nil || len(sink.Events()) != known+anonymous+len(words) {
					t.Errorf("told twice: %v", err)
				}
			})
		})
	}
}

// TestStrangersUnlimited: who wants them all gets them all.
func TestStrangersUnlimited(t *testing.T) {
	sink := &audit.Memory{}
	l := audit.New(audit.Everything(auditv1.LevelMetadata), sink, audit.Options{Strangers: audit.Budget{Bytes: -1}})
	for range 5000 {
		record(l, nil)
	}
	if len(sink.Events()) != 5000 || l.Flush() != nil || len(sink.Events()) != 5000 {
		t.Errorf("%d events", len(sink.Events()))
	}
}

// TestFlushFails: what was left out and cannot be told is an error.
func TestFlushFails(t *testing.T) {
	full := errors.New("disk full")
	l := audit.New(audit.Everything(auditv1.LevelMetadata), audit.SinkFunc(func(e *auditv1.Event) error {
		if strings.Contains(fmt.Sprint(e.Annotations), "left out") {
			return full
		}
		return nil
	}), audit.Options{Strangers: audit.Budget{Bytes: 1}})
	record(l, nil)
	record(l, nil)
	if err := l.Flush(); !errors.Is(err, full) || l.Stats().LeftOut != 1 || l.Stats().Failures != 1 {
		t.Errorf("%v %+v", err, l.Stats())
	}
}
