package apiserver

import "net/http"

// observationFilter tells an observer of requests.
type observationFilter struct {
	observer Observer // nil sees nothing
	router   *router
}

// open begins the observation of a request, if somebody observes.
func (f *observationFilter) open(x *exchange, r *http.Request) {
	if f.observer == nil {
		return
	}
	x.observed = &observation{observer: f.observer, request: Observation{
		Method: r.Method, URL: r.URL, ContentType: r.Header.Get("Content-Type"), Request: &x.request, LongRunning: x.longRunning,
	}}
}

// admit says whether the request was let in or rejected because there are too many.
func (f *observationFilter) admit(x *exchange, letIn bool) {
	o := x.observed
	if o == nil {
		return
	}
	o.request.Endpoint = f.router.name(&x.request, x.method)
	if letIn {
		o.begin()
	} else {
		o.request.Rejected = true
	}
}
