package core

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry"
)

// podConnects returns the subresources that connect to a pod's containers.
func podConnects() map[string]registry.Connect {
	upgraded := []string{http.MethodGet, http.MethodPost}
	return map[string]registry.Connect{
		"log": {
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PodLogOptions"), Methods: []string{http.MethodGet}, Reads: true,
			Parameters: podLogOptions, Validate: func(o runtime.Object) field.ErrorList { return validatePodLogOptions(o.(*corev1.PodLogOptions)) },
		},
		"exec": {
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PodExecOptions"), Methods: upgraded,
			Parameters: func(q url.Values, _ string) (runtime.Object, error) {
				p := parameters{values: q}
				return &corev1.PodExecOptions{
					Stdin: p.flag("stdin"), Stdout: p.flag("stdout"), Stderr: p.flag("stderr"), TTY: p.flag("tty"),
					Container: q.Get("container"), Command: q["command"],
				}, p.err
			},
		},
		"attach": {
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PodAttachOptions"), Methods: upgraded,
			Parameters: func(q url.Values, _ string) (runtime.Object, error) {
				p := parameters{values: q}
				return &corev1.PodAttachOptions{
					Stdin: p.flag("stdin"), Stdout: p.flag("stdout"), Stderr: p.flag("stderr"), TTY: p.flag("tty"),
					Container: q.Get("container"),
				}, p.err
			},
		},
		"portforward": {
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PodPortForwardOptions"), Methods: upgraded,
			Parameters: func(q url.Values, _ string) (runtime.Object, error) {
				o, ports := &corev1.PodPortForwardOptions{}, q["ports"]
				if len(ports) == 0 {
					return o, nil
				}
				return o, metav1.Convert_Slice_string_To_Slice_int32(&ports, &o.Ports, nil)
			},
		},
		"proxy": proxy("PodProxyOptions", func(path string) runtime.Object { return &corev1.PodProxyOptions{Path: path} }),
	}
}

func nodeConnects() map[string]registry.Connect {
	return map[string]registry.Connect{
		"proxy": proxy("NodeProxyOptions", func(path string) runtime.Object { return &corev1.NodeProxyOptions{Path: path} }),
	}
}

func serviceConnects() map[string]registry.Connect {
	return map[string]registry.Connect{
		"proxy": proxy("ServiceProxyOptions", func(path string) runtime.Object { return &corev1.ServiceProxyOptions{Path: path} }),
	}
}

// proxy passes requests on to a port. Without a path below the subresource, the query may name one.
func proxy(kind string, options func(path string) runtime.Object) registry.Connect {
	return registry.Connect{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind(kind), Below: true,
		Methods: []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions,
		},
		Parameters: func(q url.Values, path string) (runtime.Object, error) {
			if path == "" {
				path = q.Get("path")
			}
			return options(path), nil
		},
	}
}

func podLogOptions(q url.Values, _ string) (runtime.Object, error) {
	p := parameters{values: q}
	o := &corev1.PodLogOptions{
		Container: q.Get("container"), Follow: p.flag("follow"), Previous: p.flag("previous"), Timestamps: p.flag("timestamps"),
		SinceSeconds: p.number("sinceSeconds"), TailLines: p.number("tailLines"), LimitBytes: p.number("limitBytes"),
		InsecureSkipTLSVerifyBackend: p.flag("insecureSkipTLSVerifyBackend"),
	}
	if since := q["sinceTime"]; len(since) > 0 && p.err == nil {
		p.err = metav1.Convert_Slice_string_To_Pointer_v1_Time(&since, &o.SinceTime, nil)
	}
	stream := corev1.LogStreamAll
	if q.Has("stream") {
		stream = q.Get("stream")
	}
	o.Stream = &stream
	return o, p.err
}

// validatePodLogOptions validates the options of a log request.
func validatePodLogOptions(o *corev1.PodLogOptions) field.ErrorList {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	streams := []string{corev1.LogStreamAll, corev1.LogStreamStderr, corev1.LogStreamStdout}
	switch {
	case o.Stream == nil:
		return append(errs, field.Required(field.NewPath("stream"), "must be specified"))
	case !slices.Contains(streams, *o.Stream):
		errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream, streams))
	}
	if *o.Stream != corev1.LogStreamAll && o.TailLines != nil {
		errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
	}
	return errs
}

// parameters parses values of a query and keeps the first error.
type parameters struct {
	values url.Values
	err    error
}

// flag is true for any value that does not mean false, even an empty one.
func (p *parameters) flag(name string) bool {
	v, ok := p.values[name]
	return ok && len(v) > 0 && v[0] != "0" && !strings.EqualFold(v[0], "false")
}

func (p *parameters) number(name string) *int64 {
	v, ok := p.values[name]
	if !ok || len(v) == 0 {
		return nil
	}
	var n *int64
	if err := runtime.Convert_Slice_string_To_Pointer_int64(&v, &n, nil); err != nil && p.err == nil {
		p.err = err
	}
	return n
}
