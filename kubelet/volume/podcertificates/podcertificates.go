package podcertificates

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

var (
	// ErrPending means that no certificate has been issued yet.
	ErrPending = errors.New("credential bundle is not issued yet")
	// ErrRefused means that the signer has denied the request, or failed it.
	ErrRefused = errors.New("the signer has refused the request")
)

const (
	// maxJitter spreads the replacements of certificates that begin to be due together.
	maxJitter = 5 * time.Minute
	// overdue is how long after its time a replacement is worth an event.
	overdue = 10 * time.Minute
	// firstLook and lastLook bound the pauses between looks at a request that a pod waits for, and patience is how long
	// a call waits: most signers answer at once.
	firstLook = 20 * time.Millisecond
	lastLook  = 320 * time.Millisecond
	patience  = time.Second
	// look is the pause between looks at the request for a replacement.
	look = 10 * time.Second
)

// Client is access to the API server as the node.
type Client interface {
	client.Getter
	client.Creator
}

// Options configures New. The zero value is valid.
type Options struct {
	Recorder events.Recorder // takes events of pods; nil discards them
	Logger   *slog.Logger    // nil discards
}

// Certificates obtains the certificates of a node's pods. Make one with New.
type Certificates struct {
	client  Client
	node    func() (name string, uid types.UID)
	options Options

	mu   sync.Mutex
	pods map[types.UID]map[place]*record
}

// place is a source of a volume of a pod.
type place struct {
	volume string
	source int
}

// record is what is known about the certificate for a place.
type record struct {
	mu      sync.Mutex
	use     *issued  // nil before the first
	asked   *pending // nil while no request is on its way
	refused *refusal // final
}

// refusal is the condition by which a request has ended without a certificate.
type refusal struct{ metav1.Condition }

// Error returns upstream's words.
func (r *refusal) Error() string {
	return fmt.Sprintf("PodCertificateRequest was permanently %s: reason=%q message=%q", strings.ToLower(r.Type), r.Reason, r.Message)
}

func (r *refusal) Unwrap() error { return ErrRefused }

// issued is a certificate with its key.
type issued struct {
	key, chain     []byte
	begin, expires time.Time // when to replace it, and its end
	late, over     bool      // an event says that it should have been replaced, that it has expired
}

// pending is a request on its way.
type pending struct {
	name string
	key  []byte
}

// New returns Certificates that act for a node; node returns the node's name, and its UID or an empty one while that is not
// known.
func New(c Client, node func() (name string, uid types.UID), o Options) *Certificates {
	if o.Recorder == nil {
		o.Recorder = events.Discard()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Certificates{client: c, node: node, options: o, pods: map[types.UID]map[place]*record{}}
}

// Request asks for the certificate of one source of a pod's volume.
type Request struct {
	Pod        *corev1.Pod
	Volume     string // by its name
	Source     int    // the index among its sources
	Projection *corev1.PodCertificateProjection
}

// Bundle is a certificate with its key.
type Bundle struct {
	// Key is the private key, and Chain are the certificates, the pod's own first, both in PEM.
	Key, Chain []byte
	// Next is when to ask again.
	Next time.Time
}

// Certificate returns the certificate in use. It obtains the first one, and a new one when that is due; for the first, it
// waits a second at most. Calls for the same place wait for each other.
func (c *Certificates) Certificate(ctx context.Context, r Request) (Bundle, error) {
	rec := c.record(r)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.refused != nil {
		return Bundle{}, rec.refused
	}
	if rec.use == nil {
		if err := c.obtain(ctx, rec, r); err != nil {
			return Bundle{}, err
		}
	} else if err := c.replace(ctx, rec, r); err != nil {
		return Bundle{}, err
	}
	next := rec.use.begin
	if !time.Now().Before(next) {
		next = time.Now().Add(look)
	}
	return Bundle{rec.use.key, rec.use.chain, next}, nil
}

// Forget drops all that is known about a pod's certificates.
func (c *Certificates) Forget(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, pod)
}

func (c *Certificates) record(r Request) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.pods[r.Pod.UID]
	if of == nil {
		of = map[place]*record{}
		c.pods[r.Pod.UID] = of
	}
	at := place{r.Volume, r.Source}
	if of[at] == nil {
		of[at] = &record{}
	}
	return of[at]
}

// obtain asks for a pod's first certificate and waits for it a little.
func (c *Certificates) obtain(ctx context.Context, rec *record, r Request) error {
	until := time.Now().Add(patience)
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if err := c.step(ctx, rec, r); err != nil || rec.use != nil {
			return err
		}
		if time.Now().Add(pause).After(until) {
			return ErrPending
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// replace works on a certificate's replacement when it is due. Without an answer, it stays in use.
func (c *Certificates) replace(ctx context.Context, rec *record, r Request) error {
	if time.Now().Before(rec.use.begin) {
		return nil
	}
	was := rec.use
	err := c.step(ctx, rec, r)
	if rec.use == was {
		c.complain(rec.use, r.Pod)
	}
	if err != nil && rec.refused == nil {
		c.options.Logger.Warn("replacing a certificate failed; the old one stays in use", "pod", r.Pod.Namespace+"/"+r.Pod.Name, "volume", r.Volume, "error", err)
		return nil
	}
	return err
}

// complain tells once that a certificate should have been replaced, and once that it has expired.
func (c *Certificates) complain(use *issued, pod *corev1.Pod) {
	now := time.Now()
	if !use.late && now.After(use.begin.Add(overdue)) {
		use.late = true
		c.warn(pod, "CertificateOverdueForRefresh", "PodCertificate refresh overdue")
	}
	if !use.over && now.After(use.expires) {
		use.over = true
		c.warn(pod, "CertificateExpired", "PodCertificate expired")
	}
}

// step makes a request, or reads the one that was made.
func (c *Certificates) step(ctx context.Context, rec *record, r Request) error {
	if rec.asked == nil {
		asked, err := c.ask(ctx, r)
		if err != nil {
			return err
		}
		rec.asked = asked
	}
	request, err := client.As[*certificatesv1.PodCertificateRequest](c.client.Get(ctx, client.Target{
		Resource: certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"), Namespace: r.Pod.Namespace, Name: rec.asked.name,
	}))
	if apierrors.IsNotFound(err) {
		gone := rec.asked.name
		rec.asked = nil // somebody has deleted it: the next step asks again
		return fmt.Errorf("PodCertificateRequest %q appears to have been deleted", r.Pod.Namespace+"/"+gone)
	}
	if err != nil {
		return fmt.Errorf("while getting PodCertificateRequest %q: %w", r.Pod.Namespace+"/"+rec.asked.name, err)
	}
	rec.judge(request, jitter(r))
	if rec.refused == nil {
		return nil
	}
	verb := "was denied"
	if rec.refused.Type == certificatesv1.PodCertificateRequestConditionTypeFailed {
		verb = "failed"
	}
	c.warn(r.Pod, rec.refused.Type, fmt.Sprintf("PodCertificateRequest %s/%s %s, reason=%q, message=%q",
		request.Namespace, request.Name, verb, rec.refused.Reason, rec.refused.Message))
	return rec.refused
}

// judge takes what has become of a request.
func (rec *record) judge(request *certificatesv1.PodCertificateRequest, delay time.Duration) {
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			rec.refused = &refusal{condition}
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			rec.use = &issued{key: rec.asked.key, chain: clean(request.Status.CertificateChain)}
			if at := request.Status.BeginRefreshAt; at != nil {
				rec.use.begin = at.Add(delay)
			}
			if at := request.Status.NotAfter; at != nil {
				rec.use.expires = at.Time
			}
		default:
			continue
		}
		rec.asked = nil
		return
	}
}

// jitter is how long after the time that its signer names a certificate is replaced: always the same for one place.
func jitter(r Request) time.Duration {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s/%d", r.Pod.UID, r.Volume, r.Source)
	return time.Duration(h.Sum64() % uint64(maxJitter)) //nolint:gosec // less than maxJitter
}

func (c *Certificates) warn(pod *corev1.Pod, reason, message string) {
	c.options.Recorder.Record(events.Event{
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Type:      corev1.EventTypeWarning, Reason: reason, Message: message,
	})
}
