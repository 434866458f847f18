package eventratelimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/admission"
)

// Name is the plugin's name.
const Name = "EventRateLimit"

// ErrTooMany means that events come faster than a limit allows.
var ErrTooMany = errors.New("too many events")

// Type says which events count together.
type Type string

// The types of upstream's configuration.
const (
	Server          Type = "Server"          // all events
	Namespace       Type = "Namespace"       // those in a namespace
	User            Type = "User"            // those that a user writes
	SourceAndObject Type = "SourceAndObject" // those of a source about an object
)

// DefaultCacheSize is how many buckets a limit has unless it says otherwise.
const DefaultCacheSize = 4096

// Limit limits the events of one type.
type Limit struct {
	Type Type `json:"type"`
	// QPS is how many events a second are allowed for long, Burst how many at once.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is for how many namespaces, users, or sources and objects buckets are kept; 0 is DefaultCacheSize.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// Plugin is the admission plugin. Make one with New.
type Plugin struct{ limits []*buckets }

var _ admission.Validator = (*Plugin)(nil)

// New returns the plugin. It fails if there are no limits or one is bad, with the fields' names.
func New(limits []Limit) (*Plugin, error) {
	if err := Validate(limits).ToAggregate(); err != nil {
		return nil, err
	}
	p := &Plugin{}
	for _, l := range limits {
		p.limits = append(p.limits, newBuckets(l))
	}
	return p, nil
}

// Validate has upstream's rules for the plugin's configuration.
func Validate(limits []Limit) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("limits")
	if len(limits) == 0 {
		errs = append(errs, field.Invalid(path, limits, "must not be empty"))
	}
	for i, l := range limits {
		at := path.Index(i)
		switch l.Type {
		case Server, Namespace, User, SourceAndObject:
		default:
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type, []Type{Namespace, Server, SourceAndObject, User}))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != Server && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return Name }

// Handles implements admission.Plugin.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.Validator. The event counts for every limit, even if one refuses it.
func (p *Plugin) Validate(_ context.Context, r *admission.Request) error {
	if r.Kind.Group != "" || r.Kind.Kind != "Event" || r.DryRun {
		return nil
	}
	var refusals []error
	for _, l := range p.limits {
		if key := keyOf(l.of, r); !l.take(key) {
			refusals = append(refusals, fmt.Errorf("limit reached on type %v for key %v", l.of, key))
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return &admission.Error{Err: ErrTooMany, Message: utilerrors.NewAggregate(refusals).Error(), Code: http.StatusTooManyRequests}
}

// keyOf returns what events have in common that count together.
func keyOf(t Type, r *admission.Request) string {
	switch t {
	case Namespace:
		return r.Namespace
	case User:
		if r.User != nil {
			return r.User.Name
		}
	case SourceAndObject:
		if e, ok := r.Object.(*corev1.Event); ok {
			about := e.InvolvedObject
			return strings.Join([]string{e.Source.Component, e.Source.Host, about.Kind, about.Namespace, about.Name, string(about.UID), about.APIVersion}, "")
		}
	}
	return ""
}
