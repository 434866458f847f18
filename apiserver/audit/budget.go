package audit

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/authn"
)

// leftOut is the annotation of an event that stands for others.
const leftOut = "audit.keelson.dev/left-out"

// tellEvery is how often a Log says that it leaves out events, as long as it does.
const tellEvery = 10 * time.Minute

// Budget bounds what is recorded of unauthenticated requests. Without it, anybody could fill a log of limited size until
// what others did is no longer in it.
type Budget struct {
	// Bytes, of JSON, may be recorded at once, and as many more in each period Every. 0 is 1 MiB; below 0 there is no limit.
	Bytes int64
	// Every is the period in which the budget is renewed. 0 is 3 hours.
	Every time.Duration
}

func (b Budget) orDefault() Budget {
	if b.Bytes == 0 {
		b.Bytes = 1 << 20
	}
	if b.Every <= 0 {
		b.Every = 3 * time.Hour
	}
	return b
}

// unauthenticated tells whether a user has not authenticated, or could not.
func unauthenticated(id *authn.Identity) bool {
	return id == nil || id.Name == authn.Anonymous || slices.Contains(id.Groups, authn.GroupUnauthenticated)
}

// allowance is what is left of a budget, and how many events have been left out because nothing was.
type allowance struct {
	budget Budget

	mu     sync.Mutex
	full   bool // it has been filled for the first time
	left   float64
	at     time.Time // when left was computed
	missed int64
	since  time.Time // the first that was left out
	told   time.Time
}

// fill brings left up to date. The caller holds the lock.
func (p *allowance) fill(now time.Time) {
	whole := float64(p.budget.Bytes)
	if !p.full {
		p.full, p.left, p.at = true, whole, now
		return
	}
	p.left = min(whole, p.left+whole*float64(now.Sub(p.at))/float64(p.budget.Every))
	p.at = now
}

// spend takes the cost of an event from the budget, or counts the event as left out.
func (p *allowance) spend(e *auditv1.Event) bool {
	if p.budget.Bytes < 0 {
		return true
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fill(now)
	if p.left <= 0 {
		if p.missed++; p.missed == 1 {
			p.since = now
		}
		return false
	}
	if line, err := json.Marshal(e); err == nil { // else the sink has nothing to keep
		p.left -= float64(len(line) + 1)
	}
	return true
}

// account is an event that tells what was left out, if that is due: the time has come, or now is asked for. nil if it is not.
func (p *allowance) account(now bool) *auditv1.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now()
	if p.missed == 0 || !now && at.Sub(p.told) < tellEvery {
		return nil
	}
	e := &auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    auditv1.LevelMetadata, AuditID: types.UID(rand.Text()), Stage: auditv1.StageResponseComplete,
		RequestReceivedTimestamp: metav1.NewMicroTime(p.since), StageTimestamp: metav1.NewMicroTime(at),
		Annotations: map[string]string{leftOut: fmt.Sprintf("%d events of unauthenticated requests left out", p.missed)},
	}
	e.User.Username, e.User.Groups = authn.Anonymous, []string{authn.GroupUnauthenticated}
	p.fill(at)
	if line, err := json.Marshal(e); err == nil {
		p.left -= float64(len(line) + 1)
	}
	p.missed, p.told = 0, at
	return e
}
