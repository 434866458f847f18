// Package handler makes an admission webhook of an admission plugin: an http.Handler that answers AdmissionReviews, v1
// and v1beta1. Served over TLS, it brings the plugin to any cluster; behind the name of a service in package inprocess, the
// plugin gets the request's objects without any JSON between.
//
// The plugin sees the same either way: kinds of [Options.Scheme] as Go values, which do not name their type, and others
// as unstructured objects, which do. Its refusal becomes the Status that an API server would answer. A mutator's changes
// become a JSON patch.
//
// In process, the plugin runs in the goroutine of the request that is being admitted; it should return when its context
// ends. A panic fails that request only.
package handler
